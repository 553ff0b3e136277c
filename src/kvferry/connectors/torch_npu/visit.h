/* visit.h: being on a device for as long as one call takes. */
#ifndef KVFERRY_VISIT_H
#define KVFERRY_VISIT_H

#include "calls.h"

/* Make a context of `device` current. *home is what kvf_leave goes back to. False, with a reason: the
 * thread is where it was. */
bool kvf_enter(const kvf_acl *acl, int device, aclrtContext *home);

/* False, with a reason: the thread is still on the device. */
bool kvf_leave(const kvf_acl *acl, aclrtContext home);

#endif

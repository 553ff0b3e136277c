#include "visit.h"

/* NULL, without complaint, when the thread has none. */
static bool find_current(const kvf_acl *acl, aclrtContext *context) {
    aclError code = acl->aclrtGetCurrentContext(context);
    if (code != ACL_ERROR_RT_CONTEXT_NULL)
        return kvf_succeeded(acl, "aclrtGetCurrentContext", code);
    *context = NULL;
    return true;
}

/* aclrtSetDevice is counted and never undone here: an aclrtResetDevice that happened to be the last
 * would take the memory with it. */
bool kvf_enter(const kvf_acl *acl, int device, aclrtContext *home) {
    int32_t current;
    if (!find_current(acl, home)) return false;
    if (!*home) return KVF_TRY(acl, aclrtSetDevice, device);
    if (!KVF_TRY(acl, aclrtGetDevice, &current)) return false;
    if (current != device) return KVF_TRY(acl, aclrtSetDevice, device);
    *home = NULL; /* already there: nothing to go back to */
    return true;
}

bool kvf_leave(const kvf_acl *acl, aclrtContext home) {
    return !home || KVF_TRY(acl, aclrtSetCurrentContext, home);
}

/* acl_rt.h: for programs that include only this part of acl.h. */
#include "acl.h"

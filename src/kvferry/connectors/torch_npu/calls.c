#include "calls.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reason.h"

#define LIBRARIES 3

/* Which of them holds a function depends on the release. */
static const char *const NAMES[LIBRARIES] = {"libascendcl.so", "libacl_rt.so", "libacl_rt_impl.so"};

#define REMEDY \
    "source CANN's set_env.sh before the start, or set KVFERRY_ACL_LIBRARY to the library"

typedef struct kvf_libraries {
    void *opened[LIBRARIES];
    size_t count;
    char refused[768]; /* the loader's words, one library after the other */
} kvf_libraries;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Never closed again: ACL keeps threads and handlers of its own. */
static void add(kvf_libraries *libraries, const char *name) {
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library) {
        libraries->opened[libraries->count++] = library;
        return;
    }
    size_t used = strlen(libraries->refused);
    snprintf(libraries->refused + used, sizeof libraries->refused - used, "%s%s",
             used ? "; " : "", dlerror());
}

static bool open_libraries(kvf_libraries *libraries) {
    const char *only = getenv("KVFERRY_ACL_LIBRARY");
    if (only && *only)
        add(libraries, only);
    else
        for (size_t i = 0; i < LIBRARIES; i++) add(libraries, NAMES[i]);
    if (!libraries->count) kvf_say("no ACL library: %s; " REMEDY, libraries->refused);
    return libraries->count > 0;
}

static void *find(const kvf_libraries *libraries, const char *name) {
    void *found = NULL;
    for (size_t i = 0; i < libraries->count && !found; i++)
        found = dlsym(libraries->opened[i], name);
    return found;
}

static bool found(const void *function, const char *name) {
    if (!function) kvf_say("the ACL library lacks %s", name);
    return function;
}

static bool fill(kvf_acl *acl, const kvf_libraries *libraries) {
#define FIND(name) acl->name = (__typeof__(name) *)find(libraries, #name);
#define AND_FOUND(name) &&found((const void *)acl->name, #name)
    KVF_CALLS(FIND)
    FIND(aclrtMemRetainAllocationHandle)
    return true KVF_CALLS(AND_FOUND);
}

bool kvf_succeeded(const kvf_acl *acl, const char *name, aclError code) {
    if (code == ACL_SUCCESS) return true;
    const char *words = acl->aclGetRecentErrMsg();
    kvf_say("%s: %d%s%s", name, code, words ? ": " : "", words ? words : "");
    return false;
}

/* torch_npu mostly has initialised it already. */
static bool initialise(const kvf_acl *acl) {
    aclError code = acl->aclInit(NULL);
    return code == ACL_ERROR_REPEAT_INITIALIZE || kvf_succeeded(acl, "aclInit", code);
}

static bool open_all(kvf_acl *acl) {
    kvf_libraries libraries = {0};
    return open_libraries(&libraries) && fill(acl, &libraries) && initialise(acl);
}

const kvf_acl *kvf_open(void) {
    static kvf_acl acl;
    static bool ready;
    pthread_mutex_lock(&lock);
    ready = ready || open_all(&acl);
    bool usable = ready;
    pthread_mutex_unlock(&lock);
    return usable ? &acl : NULL;
}

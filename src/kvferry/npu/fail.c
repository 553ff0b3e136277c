/* fail.c: failures that are ordered (NPU_FAIL), and the words of the last failure of a thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "device.h"

#define RULES_MAX 16
#define NAME_MAX_LENGTH 63

/* Occurrence `nth` of `name` fails with `code`; nth 0: each of them. */
typedef struct npu_rule {
    char name[NAME_MAX_LENGTH + 1];
    unsigned long nth, seen;
    aclError code;
} npu_rule;

static npu_rule rules[RULES_MAX];
static size_t rule_count;

static _Thread_local char recent[256];

static int parse(const char *text, size_t length, npu_rule *rule) {
    char copy[128], end;
    if (length >= sizeof copy) return 0;
    memcpy(copy, text, length);
    copy[length] = 0;
    *rule = (npu_rule){0};
    if (sscanf(copy, "%63[A-Za-z0-9]:%lu=%d%c", rule->name, &rule->nth, &rule->code, &end) == 3)
        return rule->nth > 0;
    rule->nth = 0;
    return sscanf(copy, "%63[A-Za-z0-9]=%d%c", rule->name, &rule->code, &end) == 2;
}

int npu_order_failures(const char *text) {
    rule_count = 0;
    while (text && *text) {
        size_t length = strcspn(text, ",");
        if (rule_count == RULES_MAX || !parse(text, length, &rules[rule_count])) return 0;
        rule_count++;
        text += length + (text[length] == ',');
    }
    return 1;
}

aclError npu_ordered_failure(const char *name) {
    aclError code = 0;
    for (npu_rule *rule = rules; rule < rules + rule_count; rule++) {
        if (strcmp(rule->name, name)) continue;
        rule->seen++;
        if (!code && (!rule->nth || rule->nth == rule->seen)) code = rule->code;
    }
    return code;
}

aclError npu_refuse(aclError code, const char *why) {
    snprintf(recent, sizeof recent, "software NPU: %d: %s", code, why);
    return code;
}

aclError npu_may_call(const char *name, npu_need need) {
    aclError ordered = npu_ordered_failure(name);
    if (ordered) {
        snprintf(recent, sizeof recent, "software NPU: %d: NPU_FAIL fails %s", ordered, name);
        return ordered;
    }
    if (need >= NPU_INITIALISED && !npu_initialised())
        return npu_refuse(ACL_ERROR_UNINITIALIZE, "aclInit was not called");
    if (need >= NPU_IN_CONTEXT && !npu_current())
        return npu_refuse(ACL_ERROR_RT_CONTEXT_NULL,
                          "this thread has no context: call aclrtSetDevice first");
    return 0;
}

NPU_API const char *aclGetRecentErrMsg(void) { return *recent ? recent : NULL; }

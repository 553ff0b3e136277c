#include "reason.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "allocator.h"

static _Thread_local char reason[1024];
static _Thread_local bool said;

void kvf_begin(void) { said = false; }

void kvf_say(const char *format, ...) {
    if (said) return;
    said = true;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
}

__attribute__((visibility("default"))) const char *kvferry_last_error(void) { return reason; }

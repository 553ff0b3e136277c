#include "settings.h"

#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "page.h"

static const npu_settings DEFAULTS = {
    .profile = NPU_A3,
    .devices = 8,
    .capacity = 64ull << 30,
    .fragment = UINT64_MAX,
    .page = NPU_HUGE1G,
    .hdk = 26.0};

static npu_settings now;
static bool were_read;

static const char *const PROFILES[] = {[NPU_A2] = "A2", [NPU_A3] = "A3", [NPU_950] = "950"};

static bool read_profile(const char *text, npu_settings *s) {
    for (s->profile = NPU_A2; s->profile <= NPU_950; s->profile++)
        if (!strcmp(text, PROFILES[s->profile])) return true;
    return false;
}

static bool read_number(const char *text, uint32_t low, uint32_t high, uint32_t *number) {
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    *number = (uint32_t)value;
    return end != text && !*end && *text != '-' && low <= value && value <= high;
}

static bool read_devices(const char *text, npu_settings *s) {
    return read_number(text, 1, NPU_DEVICES_MAX, &s->devices);
}

static bool read_server(const char *text, npu_settings *s) {
    return read_number(text, 0, NPU_SERVERS_MAX - 1, &s->server);
}

static bool read_delay(const char *text, npu_settings *s) {
    return read_number(text, 0, 3600000, &s->delay_ms);
}

static bool read_size(const char *text, uint64_t *size) {
    char *end;
    uint64_t value = strtoull(text, &end, 10);
    int shift = *end == 'G' ? 30 : *end == 'M' ? 20 : *end == 'K' ? 10 : 0;
    *size = value << shift;
    return end != text && *text != '-' && !end[shift > 0] && value && *size >> shift == value;
}

static bool read_capacity(const char *text, npu_settings *s) {
    return read_size(text, &s->capacity);
}

static bool read_fragment(const char *text, npu_settings *s) {
    return read_size(text, &s->fragment);
}

static bool read_page(const char *text, npu_settings *s) {
    return read_size(text, &s->page) && (s->page == NPU_HUGE || s->page == NPU_HUGE1G);
}

static bool read_hdk(const char *text, npu_settings *s) {
    char *end;
    s->hdk = strtod(text, &end);
    return end != text && !*end;
}

static bool read_quiet(const char *text, npu_settings *s) {
    s->quiet = !strcmp(text, "1");
    return s->quiet || !strcmp(text, "0");
}

static bool read_failures(const char *text, npu_settings *s) {
    (void)s;
    return npu_order_failures(text);
}

static const struct {
    const char *name;
    bool (*read)(const char *text, npu_settings *s);
} VARIABLES[] = {
    {"NPU_PROFILE", read_profile},   {"NPU_DEVICES", read_devices}, {"NPU_CAPACITY", read_capacity},
    {"NPU_FRAGMENT", read_fragment}, {"NPU_PAGE", read_page},       {"NPU_SERVER_ID", read_server},
    {"NPU_HDK", read_hdk},           {"NPU_DELAY", read_delay},     {"NPU_FAIL", read_failures},
    {"NPU_QUIET", read_quiet},
};

const char *npu_read_settings(void) {
    npu_settings fresh = DEFAULTS;
    npu_order_failures(NULL);
    for (size_t i = 0; i < sizeof VARIABLES / sizeof *VARIABLES; i++) {
        const char *text = getenv(VARIABLES[i].name);
        if (text && *text && !VARIABLES[i].read(text, &fresh)) return VARIABLES[i].name;
    }
    now = fresh;
    were_read = true;
    return NULL;
}

const npu_settings *npu_set(void) {
    if (!were_read && npu_read_settings()) now = DEFAULTS;
    return &now;
}

NPU_API const char *npu_wrong_setting(void) {
    NPU_HOLD_LOCK;
    return npu_read_settings();
}

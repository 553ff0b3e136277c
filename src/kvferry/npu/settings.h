/* settings.h: what the environment says. Read anew by each first aclInit.
 *
 *   NPU_PROFILE     A2, A3 (default) or 950
 *   NPU_DEVICES     1 to 16 devices; default 8
 *   NPU_CAPACITY    bytes of each device for each process, as 64G, 512M, 4096K; default 64G
 *   NPU_FRAGMENT    bytes of the largest allocation that is to be had, as above; default: no limit
 *   NPU_PAGE        the largest page that is to be had, 1G or 2M; default 1G
 *   NPU_SERVER_ID   0 to 1023, the server this process pretends to be on; default 0
 *   NPU_HDK         release of the driver, as 25.5; default 26.0
 *   NPU_DELAY       milliseconds that every task of a stream takes at least; default 0
 *   NPU_FAIL        failures to order, see call.h
 *   NPU_QUIET       1: no announcement
 */
#ifndef NPU_SETTINGS_H
#define NPU_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#define NPU_DEVICES_MAX 16
#define NPU_SERVERS_MAX 1024

typedef enum { NPU_A2, NPU_A3, NPU_950 } npu_profile;

typedef struct npu_settings {
    npu_profile profile;
    uint32_t devices, server, delay_ms;
    uint64_t capacity, fragment, page;
    double hdk;
    bool quiet;
} npu_settings;

/* The settings now in force. Under the lock. */
const npu_settings *npu_set(void);

/* Read the environment; NULL, or the name of the variable that makes no sense. Under the lock. */
const char *npu_read_settings(void);

#endif

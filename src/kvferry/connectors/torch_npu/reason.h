/* reason.h: why a call of this thread failed. */
#ifndef KVFERRY_REASON_H
#define KVFERRY_REASON_H

/* A call begins: its first kvf_say replaces what an earlier call said. */
void kvf_begin(void);

/* Keep a reason. Only the first of a call counts: the others are consequences. */
__attribute__((format(printf, 1, 2))) void kvf_say(const char *format, ...);

#endif

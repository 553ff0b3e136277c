/* check.h: a condition that ends the program when it does not hold, with its text and its place;
 * and how often a thread that is alone tries something. */
#ifndef KVF_CHECK_H
#define KVF_CHECK_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);   \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

/* Where the thread sanitizer has nothing to find, it runs a tenth: the others run them all. */
#ifdef __SANITIZE_THREAD__
#define ALONE(rounds) ((rounds) / 10)
#else
#define ALONE(rounds) (rounds)
#endif

#endif

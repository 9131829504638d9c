/*
 * The double of CUDA: what the files of libcudart.so.13 share. See double.h.
 *
 * The runtime has a "last error" for each thread, and makes the primary context of the thread's
 * device when a call needs one.
 */
#ifndef HOMEFREE_TESTS_CUDA_DOUBLE_RUNTIME_H
#define HOMEFREE_TESTS_CUDA_DOUBLE_RUNTIME_H

#include "double.h"

/* Keeps an error for cudaGetLastError(), and returns it. */
int double_last(int error);

/* Sees to a context: an error, or 0. Within a call. */
int double_context(struct double_context **out);

/* One that needs no context, and one that makes it. */
#define DOUBLE_RUNTIME(function, ...)                \
    do {                                             \
        int error_ = double_runtime_enter(function); \
        if (error_ == 0)                             \
            error_ = (__VA_ARGS__);                  \
        return double_last(double_leave(error_));    \
    } while (0)
#define DOUBLE_RUNTIME_IN_CONTEXT(function, ...)     \
    do {                                             \
        struct double_context *context_ = NULL;      \
        int error_ = double_runtime_enter(function); \
        if (error_ == 0)                             \
            error_ = double_context(&context_);      \
        if (error_ == 0)                             \
            error_ = (__VA_ARGS__);                  \
        return double_last(double_leave(error_));    \
    } while (0)

/* double_enter(), after cuInit(). */
int double_runtime_enter(const char *function);

#endif

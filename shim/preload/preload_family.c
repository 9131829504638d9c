/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The malloc family of whole-process mode: libhomefree-preload.so exports it under libc's names, in
 * front of libc, so that every object of the process allocates from the heap. Not part of
 * libhomefree.so.1.
 *
 * Owns nothing, takes no lock. Callable at any stage: the functions that it jumps to start the heap
 * if necessary. Optimised in every build, because each function must end in a jump, which preserves
 * the caller's address.
 *
 * The names have no version. The dynamic linker binds a reference such as malloc@GLIBC_2.2.5 to an
 * unversioned definition, but not to one of another version. operator new and delete are absent:
 * those of the C++ runtime call malloc and free, and throw as C++ programs expect. Where an
 * allocator's library has operators of its own, its blocks go home.
 */
#include "shim/calls.h"

#define HF_SHIM(...)
#define HF_MALLOC_FAMILY(name, result, parameters, arguments, call)                         \
    __attribute__((visibility("default"))) result preload_##name parameters __asm__(#name); \
    result preload_##name parameters                                                        \
    {                                                                                       \
        return call;                                                                        \
    }
#include "shim/functions.def"

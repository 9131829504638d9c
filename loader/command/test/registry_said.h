/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the process of a check of `homefree test --registry` says, a line each, to the one that
 * started it. Owns the file that it says it to.
 */
#ifndef HOMEFREE_LOADER_COMMAND_TEST_REGISTRY_SAID_H
#define HOMEFREE_LOADER_COMMAND_TEST_REGISTRY_SAID_H

/* The longest line, and the letters with which lines begin. */
enum { HF_REGISTRY_LINE = 512 };
enum { HF_REGISTRY_RULE = 'r', HF_REGISTRY_HOW = 'h', HF_REGISTRY_TOLD = 't' };

/* Where lines go. */
void hf_registry_say_to(int file);

/* Ends the process: the rule that is broken, and how. */
_Noreturn void hf_registry_refuse(const char *rule, const char *how, ...)
    __attribute__((format(printf, 2, 3)));

/* Something that was measured. */
void hf_registry_tell(const char *what, ...) __attribute__((format(printf, 1, 2)));

#endif

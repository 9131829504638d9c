/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A line on stderr about what is being done, for whoever waits.
 *
 * Owns: the last line of the terminal, until hf_progress_end(). One thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_PROGRESS_H
#define HOMEFREE_LOADER_COMMAND_PROGRESS_H

/* Shows the text, after "<who>: ", if stderr is a terminal and the command has taken a second. */
__attribute__((format(printf, 2, 3))) void hf_progress(const char *who, const char *format, ...);

/* Removes the line. Required before anything else is printed. */
void hf_progress_end(void);

#endif

/*
 * A line on stderr about what is being done, for whoever waits.
 *
 * Owns: the last line of the terminal, until hf_report_progress_end(). One thread.
 */
#ifndef HF_LOADER_COMMAND_REPORT_REPORT_PROGRESS_H
#define HF_LOADER_COMMAND_REPORT_REPORT_PROGRESS_H

/* Shows the text if stderr is a terminal and the command has taken a second. */
__attribute__((format(printf, 1, 2))) void hf_report_progress(const char *format, ...);

/* Removes the line. Required before anything else is printed. */
void hf_report_progress_end(void);

#endif

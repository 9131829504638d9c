/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a program is a Python: asked before it becomes the harness, because any other program
 * that ends with status 0 would look like a module without findings. Owns nothing. One thread.
 */
#ifndef HOMEFREE_LOADER_COMMAND_TEST_PYTHON_PROGRAM_H
#define HOMEFREE_LOADER_COMMAND_TEST_PYTHON_PROGRAM_H

enum hf_python_answer {
    HF_PYTHON_YES,
    HF_PYTHON_NO,      /* it printed something else, or nothing */
    HF_PYTHON_SILENT,  /* it took longer than HF_PYTHON_SECONDS */
    HF_PYTHON_NOT_RUN, /* errno says why */
};
enum { HF_PYTHON_SECONDS = 30 };

/* Runs the program, found as execvp(3) does, with a sum for Python; ends it if it goes on. */
enum hf_python_answer hf_python_ask(const char *program);

#endif

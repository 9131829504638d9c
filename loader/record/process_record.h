/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The record of a process: the facts that `homefree doctor` shows. process_record.c collects and
 * writes them, process_end.c decides when, and the command's part in Python reads them
 * (python/homefree/command/doctor_record.py). With --pid, the command writes the record itself,
 * from what it sees of the process (doctor_live.h). This is the only description of the format.
 *
 * A record consists of lines of fields separated by tabs. In a field, '%' and every byte that is
 * not printable ASCII is written as '%' and two hexadecimal digits. An empty field is "-"; a field
 * that holds "-" itself is "%2D". The first field names the kind of line:
 *
 *   homefree-doctor VERSION     the first line
 *   process PID MOMENT SIGNAL PROGRAM ROUTING
 *                               moment: exit, start, signal, asked, live; routing: on, off, none
 *                               (the process has no libhomefree), unknown
 *   preload LIST                LD_PRELOAD at the time of the record
 *   unseen REASON               only with `live`, of a process whose memory could not be read: the
 *                               record has no slots but those whose target is certain
 *   heap RESERVED USED ALLOCATED RESIDENT
 *                               bytes; "-" where the heap could not be asked
 *   object NAMESPACE ROLE FLAGS PATH SONAME
 *                               a loaded object; other lines refer to it by its position, from 0
 *                               role: ordinary, runtime, linker, homefree, satellite
 *                               flags: m (gets pages from the system), s (uses static TLS),
 *                               h (this heap), p (the program), y (CPython); only with `live`:
 *                               l (linked with libhomefree)
 *   defines OBJECT FUNCTION     the object defines an allocator's function
 *   slot OBJECT FUNCTION KIND STATE TARGET REASON
 *                               kind: call, data, word; state: routed, refused, plain (of a
 *                               function that is not routed); target: the object whose function
 *                               the slot calls, or "-"
 *   reach OBJECT REASON         routing cannot reach the object at all
 *   copy OBJECT VARIABLE FUNCTION TARGET
 *                               the program's COPY relocation of this variable points to an
 *                               allocator's function
 *   foreign OBJECT ALLOCATOR BYTES STATE LEAKED
 *                               a foreign allocator and the bytes it has mapped; state: home
 *                               (homefree frees its pointers with it), known (none of its
 *                               functions can be called); how many of its blocks were leaked
 *   contains OBJECT ALLOCATOR   only with `live`: an allocator that the object's file contains
 *   publishes OBJECT ALLOCATOR  only with `live`: one that the file publishes in the registry, and
 *                               for which there is no `contains`
 *   crash OBJECT FUNCTION CALLER
 *                               after a signal: the object whose code was running, or that had
 *                               called libc's code; its function; the next other object up the
 *                               stack
 *   freeing                     that object's own allocator was to free another's block
 *   end LINES                   the last line; LINES is the number of lines before it
 */
#ifndef HOMEFREE_LOADER_RECORD_PROCESS_RECORD_H
#define HOMEFREE_LOADER_RECORD_PROCESS_RECORD_H

#include "loader/record/crash_place.h"

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HF_DOCTOR_FIRST   "homefree-doctor"
#define HF_DOCTOR_VERSION 2

/* The environment variable through which the command requests records: MOMENT:PID:DIRECTORY. PID 0
 * requests one from every process. */
#define HF_DOCTOR_VARIABLE "HOMEFREE_DOCTOR"

enum hf_doctor_moment { HF_DOCTOR_EXIT, HF_DOCTOR_START, HF_DOCTOR_SIGNAL, HF_DOCTOR_ASKED };

/*
 * Writes a record. `alone`: takes no lock and modifies nothing but the record's file, for a copy of
 * a process that may have stopped anywhere; otherwise takes the loader's lock. `crash` is NULL
 * without a crash. Returns 0 or a negative errno.
 */
int hf_doctor_write(int descriptor, enum hf_doctor_moment moment, int signal_number,
                    const struct hf_doctor_crash *crash, bool alone);

/* Reads HOMEFREE_DOCTOR and prepares the requested record. Called once, by the library's
 * constructor, after the first routing pass. */
void hf_record_start(void);

#endif

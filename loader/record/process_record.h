/*
 * The facts about a process that `homefree doctor` shows: collected here, read by the command
 * (loader/command/doctor_record.h), written once more nowhere.
 *
 * The record is lines of fields, separated by tabs. In a field, '%' and bytes that are not
 * printable ASCII are written as '%' and two hexadecimal digits; an empty field is "-", and a field
 * that is
 * "-" is "%2D". The first field says what a line is:
 *
 *   homefree-doctor VERSION     first
 *   process PID MOMENT SIGNAL PROGRAM ROUTING
 *                               moment: exit, start, signal, asked; routing: on, off
 *   preload LIST                what the environment asks to preload, at the time of the record
 *   heap RESERVED USED ALLOCATED RESIDENT     bytes; - where it could not be asked for
 *   object NAMESPACE ROLE FLAGS PATH SONAME   objects are meant by their order, from 0
 *                               role: ordinary, runtime, linker, homefree; flags: any of m (calls
 *                               the system for pages), s (wants static TLS), h (this heap), p (the
 *                               program), y (CPython)
 *   defines OBJECT FUNCTION     it defines a function that allocators define
 *   slot OBJECT FUNCTION KIND STATE TARGET REASON
 *                               kind: call, data, word; state: routed, plain (not for routing),
 *                               refused; target: the object whose function is called, or -
 *   reach OBJECT REASON         out of routing's reach as a whole
 *   copy OBJECT VARIABLE FUNCTION TARGET      a variable that the program holds a copy of points
 *                               to an allocator's function
 *   foreign allocator OBJECT ALLOCATOR BYTES STATE    pages of this allocator are known to
 * homefree; state: home (its pointers are sent home), known (nothing can be called) crash OBJECT
 * FUNCTION CALLER after a signal: the object whose code it hit, or that called the code of libc
 * that it hit; its function; the next object of another kind up the stack end LINES last; how many
 * came before
 */
#ifndef HOMEFREE_PROCESS_RECORD_H
#define HOMEFREE_PROCESS_RECORD_H

#include "loader/record/crash_place.h"

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HF_DOCTOR_FIRST   "homefree-doctor"
#define HF_DOCTOR_VERSION 1

/* What the command tells the process: MOMENT:PID:DIRECTORY. PID 0: every process that ends. */
#define HF_DOCTOR_VARIABLE "HOMEFREE_DOCTOR"

enum hf_doctor_moment { HF_DOCTOR_EXIT, HF_DOCTOR_START, HF_DOCTOR_SIGNAL, HF_DOCTOR_ASKED };

/* Writes a record. `alone`: no lock is taken and nothing but the record's file is touched, in a
 * copy of a process that may have stopped anywhere. crash: NULL where there was none. Result: 0 or
 * a negative errno. */
int hf_doctor_write(int descriptor, enum hf_doctor_moment moment, int signal_number,
                    const struct hf_doctor_crash *crash, bool alone);

/* Reads what `homefree doctor` asks of this process and prepares it. Called once, by the library's
 * constructor, after the first routing pass. */
void hf_record_start(void);

#endif

/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The parts of which extension_module.c makes the module. Owns nothing.
 */
#ifndef HOMEFREE_PYTHON_NATIVE_MODULE_PARTS_H
#define HOMEFREE_PYTHON_NATIVE_MODULE_PARTS_H

#include "python/native/module_state.h"

/* host_module.c */
extern PyMethodDef homefree_host_methods[];
/* doctor_module.c: homefree.doctor() */
extern PyMethodDef homefree_doctor_methods[];
/* diagnose_module.c: homefree.diagnose() */
extern PyMethodDef homefree_diagnose_methods[];
/* limit_module.c: homefree.limit() */
extern PyMethodDef homefree_limit_methods[];
/* profile_module.c: homefree.profile() */
extern PyMethodDef homefree_profile_methods[];
/* check.c: homefree.check */
extern PyMethodDef homefree_check_methods[];
/* load.c: homefree.load() */
extern PyMethodDef homefree_load_methods[] __attribute__((weak));
/* interpreter_load.c: extension modules in interpreters with a GIL of their own */
extern PyMethodDef homefree_interpreter_methods[];
/* pressure_module.c: homefree.on_pressure() */
extern PyMethodDef homefree_pressure_methods[];
/* cuda_module.c: homefree.cuda */
extern PyMethodDef homefree_cuda_methods[];
/* crossing.c, message_object.c, layout.c, work.c, work_threads.c, frames.c, interpreters_module.c:
 * homefree.interpreters */
extern PyMethodDef homefree_crossing_methods[];
extern PyMethodDef homefree_message_methods[];
extern PyMethodDef homefree_layout_methods[];
extern PyMethodDef homefree_work_methods[];
extern PyMethodDef homefree_worker_methods[];
extern PyMethodDef homefree_frames_methods[];
extern PyMethodDef homefree_interpreters_methods[];

/* Adds a part's types and constants; called once for each module object. Returns 0, or -1 with an
 * exception set. */
int homefree_host_exec(PyObject *module);
int homefree_crossing_exec(PyObject *module);
int homefree_message_exec(PyObject *module);
int homefree_layout_exec(PyObject *module);

/* The module's state is host_module.c's to visit and to clear. */
int homefree_host_traverse(PyObject *module, visitproc visitor, void *arg);
int homefree_host_clear(PyObject *module);

#endif

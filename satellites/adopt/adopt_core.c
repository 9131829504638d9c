/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See adopt_core.h. Owns nothing.
 */
#include "satellites/adopt/adopt_core.h"

#include "alloc/heap/front_end.h"
#include "loader/adopt/guard_question.h"
#include "loader/foreign/adopted_note.h"
#include "loader/foreign/finding.h"
#include "loader/interpose/definers.h"
#include "loader/interpose/loader_lock.h"
#include "loader/interpose/route.h"
#include "loader/satellites/adopt_api.h"

#include <dlfcn.h>
#include <homefree/alloc.h>
#include <homefree/libc.h>

#define HF_CORE_GIVES HF_CALLS_CORE
#define HF_CORE_DOES  HF_CALLS_CORE_VOID
#include "loader/satellites/adopt_tables.def"

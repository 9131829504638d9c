/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * See interpreters_core.h. Owns nothing.
 */
#include "satellites/interpreters/interpreters_core.h"

#include <homefree/homefree.h>

#define HF_CORE_GIVES(result, name, parameters, arguments) \
    result name parameters                                 \
    {                                                      \
        return hf_core()->name arguments;                  \
    }
#define HF_CORE_DOES(name, parameters, arguments) \
    void name parameters                          \
    {                                             \
        hf_core()->name arguments;                \
    }
#include "loader/satellites/interpreters_tables.def"

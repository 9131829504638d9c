/* SPDX-License-Identifier: BSD-2-Clause */
/* A library whose memory others free. */

/* A text for the caller, who frees it with free(). NULL if there is no memory. */
char *greeting(const char *name);

/* Whether homefree's heap owns a text. */
int greeting_is_on_the_heap(const char *text);

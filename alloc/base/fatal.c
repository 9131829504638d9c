/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Builds and writes one-line messages, and ends the process. Owns hf_fatal_speaker, which any
 * thread may read. See fatal.h for what may be called when.
 */
#include "alloc/base/fatal.h"

#include "alloc/base/dynlink.h"
#include "alloc/base/uncancelled.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void hf_text_begin(struct hf_text *text)
{
    text->length = 0;
    hf_text_add(text, "homefree: ");
}

void hf_text_add_n(struct hf_text *text, const char *s, size_t n)
{
    /* The last byte is reserved for the newline. */
    for (size_t i = 0; i < n && s[i] != '\0' && text->length < sizeof text->bytes - 1; i++) {
        const char shown[] = {s[i], '?'};
        bool control = (unsigned char)s[i] < 0x20 || s[i] == 0x7f;
        text->bytes[text->length++] = shown[control];
    }
}

void hf_text_add(struct hf_text *text, const char *s)
{
    hf_text_add_n(text, s != NULL ? s : "?", SIZE_MAX);
}

static void add_number(struct hf_text *text, uintmax_t value, unsigned base)
{
    char digits[24];
    size_t at = sizeof digits;
    do
        digits[--at] = "0123456789abcdef"[value % base];
    while ((value /= base) != 0);
    hf_text_add_n(text, digits + at, sizeof digits - at);
}

void hf_text_add_hex(struct hf_text *text, uintptr_t value)
{
    hf_text_add(text, "0x");
    add_number(text, value, 16);
}

void hf_text_add_decimal(struct hf_text *text, intmax_t value)
{
    if (value < 0)
        hf_text_add(text, "-");
    add_number(text, value < 0 ? 0 - (uintmax_t)value : (uintmax_t)value, 10);
}

void hf_text_say(struct hf_text *text, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    for (const char *at = format;; at++) {
        const size_t plain = strcspn(at, "%");
        hf_text_add_n(text, at, plain);
        at += plain;
        if (*at == '\0')
            break;
        at++;
        if (*at == 's') {
            hf_text_add(text, va_arg(values, const char *));
        } else if (*at == 'd') {
            hf_text_add_decimal(text, va_arg(values, int));
        } else if (*at == 'p') {
            hf_text_add_hex(text, (uintptr_t)va_arg(values, const void *));
        } else if (*at == 'z') {
            add_number(text, va_arg(values, size_t), 10);
            at++;
        } else {
            const int most = va_arg(values, int);
            hf_text_add_n(text, va_arg(values, const char *), (size_t)most);
            at += 2;
        }
    }
    va_end(values);
}

void hf_text_add_code(struct hf_text *text, const void *address)
{
    const struct link_map *map = hf_dynlink_find(address);
    if (map == NULL)
        hf_text_say(text, "%p", address);
    else
        hf_text_say(text, "%s+%p", hf_dynlink_name(map),
                    (const void *)((uintptr_t)address - map->l_addr));
}

void hf_text_write(struct hf_text *text)
{
    int saved_errno = errno;
    text->bytes[text->length++] = '\n';
    const char *from = text->bytes;
    size_t left = text->length;
    while (left > 0) {
        ssize_t written = hf_write_uncancelled(STDERR_FILENO, from, left);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            break;
        from += written;
        left -= (size_t)written;
    }
    errno = saved_errno;
}

_Atomic uint64_t hf_fatal_speaker;

/* The first thread's line names the cause; what others find after it is the same corruption seen
 * again. They wait for the process to end, but not for ever: a handler of SIGABRT may have leapt
 * out. A forked child does not wait for a thread of its parent. */
static void let_the_first_speak(void)
{
    const struct timespec patience = {.tv_sec = 5};
    const uint64_t process = (uint64_t)getpid() << 32,
                   self = process | (uint32_t)syscall(SYS_gettid);
    uint64_t first = 0;
    if (atomic_compare_exchange_strong(&hf_fatal_speaker, &first, self) || first == self)
        return;
    if (first >> 32 == process >> 32)
        hf_sleep_uncancelled(&patience);
    atomic_store(&hf_fatal_speaker, self);
}

void hf_fatal(struct hf_text *text)
{
    let_the_first_speak();
    hf_text_write(text);
    /* In a signal handler it may be blocked. From glibc 2.41 on abort() then ends the process
     * without calling the handlers of SIGABRT, one of which may have a report to close. */
    sigset_t abort_alone;
    (void)sigemptyset(&abort_alone);
    (void)sigaddset(&abort_alone, SIGABRT);
    (void)sigprocmask(SIG_UNBLOCK, &abort_alone, NULL); /* this thread's, on Linux */
    abort();
}

void hf_text_begin_fatal(struct hf_text *text, const char *call, const void *ptr)
{
    hf_text_begin(text);
    hf_text_say(text, "fatal: %s(%p): ", call, ptr);
}

void hf_text_begin_warning(struct hf_text *text, const char *call, const void *ptr)
{
    hf_text_begin(text);
    hf_text_say(text, "warning: %s(%p): ", call, ptr);
}

void hf_text_add_caller(struct hf_text *text, const void *caller)
{
    if (caller == NULL)
        return;
    hf_text_add(text, "; called from ");
    hf_text_add_code(text, caller);
}

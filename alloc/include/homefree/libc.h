/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * homefree/libc.h - libc's functions that return or grow heap memory.
 *
 * Each function behaves as the libc function of its name, except that the memory it returns belongs
 * to the heap. A buffer that is passed in to be grown may belong to any allocator; its owner grows
 * it.
 */
#ifndef HOMEFREE_LIBC_H
#define HOMEFREE_LIBC_H

#include <homefree/base.h>

#include <stdarg.h>
#include <stdio.h>
#include <sys/types.h>
#include <wchar.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Duplicates a string into the heap.
 *
 * Parameters:
 *   s  in: a zero-terminated string; hf_strndup() reads at most n bytes of it
 *   n  in, bytes: the most to copy, without the terminator
 * Result: the copy, zero-terminated; NULL on error, with errno set.
 * Errors:
 *   ENOMEM  the region is full, or the system refuses memory
 * Frees: the caller frees the copy with hf_free() or any routed free().
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Source: strdup(3), wcsdup(3).
 * Since: 1.0
 */
HF_API HF_MALLOC char *hf_strdup(const char *s);
HF_API HF_MALLOC char *hf_strndup(const char *s, size_t n);
HF_API HF_MALLOC wchar_t *hf_wcsdup(const wchar_t *s);

/*
 * Prints into a string that is allocated from the heap.
 *
 * Parameters:
 *   out     out: the string, zero-terminated; unchanged on error
 *   format  in: as in printf(3)
 *   args    in: the arguments of format
 * Result: the string's length in bytes, without the terminator; -1 on error, with errno set.
 * Errors:
 *   ENOMEM  there is no memory
 *   others  as printf(3)
 * Frees: the caller frees *out with hf_free() or any routed free().
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Source: asprintf(3).
 * Since: 1.0
 */
HF_API __attribute__((format(printf, 2, 3))) int hf_asprintf(char **out, const char *format, ...);
HF_API __attribute__((format(printf, 2, 0))) int hf_vasprintf(char **out, const char *format,
                                                              va_list args);

/*
 * Reads a line into a buffer, which grows as needed.
 *
 * Parameters:
 *   line       in/out: a block of any allocator, or NULL for a new block of the heap
 *   size       in/out, bytes: of *line
 *   delimiter  in: the byte that ends a line; for hf_getline(), '\n'
 *   stream     in/out: open for reading
 * Result: the number of bytes read, including the delimiter and without the terminator; -1 at the
 *   end of the file or on error, with errno set.
 * Errors:
 *   EINVAL  line, size or stream is NULL
 *   ENOMEM  there is no memory
 *   others  as getdelim(3)
 * Frees: the caller frees *line with hf_free() or any routed free(), also after an error.
 * Threads: safe; the stream is locked, as in libc.
 * Fork: safe.
 * Signals: unsafe.
 * Source: getline(3).
 * Since: 1.0
 */
HF_API ssize_t hf_getline(char **line, size_t *size, FILE *stream);
HF_API ssize_t hf_getdelim(char **line, size_t *size, int delimiter, FILE *stream);

/*
 * Resolves a path: every symbolic link, "." and "..".
 *
 * Parameters:
 *   path      in: the path of an existing file
 *   resolved  out, PATH_MAX bytes: the absolute path; NULL to allocate it from the heap
 * Result: the absolute path; NULL on error, with errno set.
 * Errors:
 *   ENOMEM  there is no memory
 *   others  as realpath(3)
 * Frees: the caller frees a result that was allocated with hf_free() or any routed free().
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Source: realpath(3), canonicalize_file_name(3).
 * Since: 1.0
 */
HF_API char *hf_realpath(const char *path, char *resolved);
HF_API char *hf_canonicalize_file_name(const char *path);

/*
 * Returns the path of the current working directory.
 *
 * Parameters:
 *   buffer  out, size bytes: the path; NULL to allocate it from the heap
 *   size    in, bytes: of the buffer; with a NULL buffer 0 allocates what the path needs
 * Result: the path; NULL on error, with errno set.
 * Errors:
 *   ENOMEM  there is no memory
 *   ERANGE  the path is longer than size
 *   others  as getcwd(3)
 * Frees: the caller frees a result that was allocated with hf_free() or any routed free().
 * Threads: safe; hf_get_current_dir_name() reads the environment.
 * Fork: safe.
 * Signals: unsafe.
 * Source: getcwd(3), get_current_dir_name(3).
 * Since: 1.0
 */
HF_API char *hf_getcwd(char *buffer, size_t size);
HF_API char *hf_get_current_dir_name(void);

/*
 * Describes the addresses of a backtrace.
 *
 * Parameters:
 *   addresses  in, count elements: from backtrace(3)
 *   count      in, elements
 * Result: an array of count strings, in one block; NULL on error.
 * Errors:
 *   ENOMEM  there is no memory
 * Frees: the caller frees the array, and with it the strings, with hf_free() or any routed free().
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Source: backtrace_symbols(3).
 * Since: 1.0
 */
HF_API char **hf_backtrace_symbols(void *const *addresses, int count);

/*
 * Opens a stream that writes into a growing block of the heap.
 *
 * *buffer and *size are updated whenever the stream is flushed or closed. A zero byte always
 * follows the contents.
 *
 * Parameters:
 *   buffer  out: the block
 *   size    out, bytes: of the contents, without the terminator
 * Result: the stream; NULL on error, with errno set.
 * Errors:
 *   EINVAL  buffer or size is NULL
 *   ENOMEM  there is no memory
 * Frees: the caller closes the stream with fclose(3), then frees *buffer with hf_free() or any
 *   routed free().
 * Threads: safe; the stream is locked, as in libc.
 * Fork: safe.
 * Signals: unsafe.
 * Source: open_memstream(3).
 * Since: 1.0
 */
HF_API FILE *hf_open_memstream(char **buffer, size_t *size);

struct dirent;

/*
 * Reads the entries of a directory, selected and sorted.
 *
 * Parameters:
 *   dirfd      in: the directory that a relative path starts from; AT_FDCWD for the current one
 *   directory  in: the path of the directory
 *   names      out: an array of entries
 *   select     in: returns non-zero for the entries wanted; NULL takes all
 *   compare    in: the order, as for qsort(3); NULL leaves the directory's own order
 * Result: the number of entries; -1 on error, with errno set.
 * Errors:
 *   ENOMEM  there is no memory
 *   others  as scandir(3)
 * Frees: the caller frees each entry, then the array, with hf_free() or any routed free().
 * Threads: safe.
 * Fork: safe.
 * Signals: unsafe.
 * Source: scandir(3).
 * Since: 1.0
 */
HF_API int hf_scandir(const char *directory, struct dirent ***names,
                      int (*select)(const struct dirent *),
                      int (*compare)(const struct dirent **, const struct dirent **));
HF_API int hf_scandirat(int dirfd, const char *directory, struct dirent ***names,
                        int (*select)(const struct dirent *),
                        int (*compare)(const struct dirent **, const struct dirent **));

#ifdef __cplusplus
}
#endif
#endif

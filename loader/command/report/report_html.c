/*
 * See report_exports.h. The template is report.html, which the build makes an array.
 */
#include "loader/command/report/report_document.h"
#include "loader/command/report/report_exports.h"

#include <stdlib.h>
#include <string.h>

static const unsigned char template[] = {
#include "report_template.inc"
};

/* Where the document goes. */
static const char mark[] = "@HOMEFREE_REPORT@";

/* The page contains the document in a script element, which "</script>" in a name would end. */
static void write_escaped(FILE *out, const char *text, size_t length)
{
    const char *const end = text + length;
    while (text < end) {
        const char *bracket = memchr(text, '<', (size_t)(end - text));
        const char *stop = bracket != NULL ? bracket : end;
        fwrite(text, 1, (size_t)(stop - text), out);
        if (bracket == NULL)
            return;
        fputs("\\u003c", out);
        text = bracket + 1;
    }
}

void hf_report_html_write(FILE *out, const struct hf_merged *merged,
                          const struct hf_comparison *comparison)
{
    char *document = NULL;
    size_t length = 0;
    FILE *written = open_memstream(&document, &length);
    if (written == NULL)
        hf_keep_out_of_memory();
    hf_report_document_write(written, merged, comparison);
    const bool whole = ferror(written) == 0;
    if (fclose(written) != 0 || !whole)
        hf_keep_out_of_memory();

    const unsigned char *at = memmem(template, sizeof template, mark, sizeof mark - 1);
    const size_t before = at != NULL ? (size_t)(at - template) : sizeof template;
    fwrite(template, 1, before, out);
    if (at != NULL) {
        write_escaped(out, document, length);
        const size_t behind = before + sizeof mark - 1;
        fwrite(template + behind, 1, sizeof template - behind, out);
    }
    free(document);
}

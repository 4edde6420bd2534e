/* The tag among the properties of a message, as entries of queues hold it. */

#ifndef PYROMQ_LANE_TAGS_H
#define PYROMQ_LANE_TAGS_H

#include "bytes.h"

/* Find the hash of the last tag, 0 if there is none; return 0 if the tag is unusual: empty, or not of ASCII. */
static inline int find_tag(struct text properties, int32_t *code)
{
    static const char NAME[] = "\x02TAGS\x01";
    const size_t length = sizeof NAME - 1;
    struct text rest = properties, tag = {NULL, NULL};
    *code = 0;
    if (skip(&rest, NAME + 1, length - 1))
        tag.at = rest.at;
    rest = properties;
    for (const char *found; (found = find(rest, NAME, length)) != NULL; rest.at = found + 1)
        tag.at = found + length;
    if (tag.at == NULL)
        return 1;
    const char *end = memchr(tag.at, 2, (size_t)(properties.end - tag.at));
    tag.end = end == NULL ? properties.end : end;
    if (!is_ascii(tag))
        return 0;
    *code = java_hash(tag);
    return tag.at < tag.end;
}

#endif

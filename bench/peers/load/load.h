/* What the engine (load.c) and the readers of answers (answers.c) share. */

#ifndef LOAD_H
#define LOAD_H

#include <stddef.h>
#include <stdint.h>

/* One answer, as a reader of a protocol sees it. */
struct answer {
    int slot;         /* which request of the connection it answers; OLDEST: the one that has waited longest */
    int through;      /* not 0: all older requests are answered as well (RabbitMQ's "multiple") */
    int messages;     /* messages that it acknowledges or carries */
    const char *error; /* NULL: fine. Otherwise where the text of the error is, in the bytes read */
    size_t error_length;
};

enum { OLDEST = -1, NOBODY = -2 }; /* NOBODY: the server said something that answers no request */

/* Reads the answer at the start of `data`. Returns its length; 0: more bytes are needed; -1: this is no answer. */
typedef long reader(const char *data, size_t length, struct answer *found);

reader *find_reader(const char *protocol);

#endif

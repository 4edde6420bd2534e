/* A load generator that is not the bottleneck: one thread, epoll, requests made beforehand.
 *
 *     load PROTOCOL WINDOW WARM_UP SECONDS RATE|once PIDS DESCRIPTOR… <requests >result
 *
 * bench/peers/load/generator.py opens the connections, greets the server as its protocol wants it, and hands over the
 * descriptors; standard input has the requests. So nothing here knows how a request looks, and answers.c knows only
 * how an answer does.
 *
 * A connection has WINDOW slots, each with one request in flight. A slot has a ring of requests which it sends in turn;
 * some bytes of each are filled in anew (a counter, the time). Closed loop (RATE 0): an answer frees its slot, which
 * sends its next request at once. All answers of one read are handled before one write. Fixed rate: request k is due at
 * k / RATE whatever the answers do, and its latency counts from that moment, also if no slot was free then. So a
 * stall of the server is seen by all requests that were due meanwhile, not by one (no "coordinated omission"). With
 * `once` for RATE it is a closed loop in which each slot sends the requests of its ring once; the run ends with the last
 * answer. SIGTERM ends any run early, with the result until then.
 *
 * Counted are the answers between the end of the warm-up and the end. An answer that says "no" is an error and counts
 * for nothing. Latencies go into a histogram with 64 steps a doubling. CPU time of the servers (PIDS, divided by
 * commas), of this process and of the whole machine is read at both ends of the same interval.
 */

#define _GNU_SOURCE
#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { READ_SIZE = 256 << 10, REMEMBERED = 1 << 16, STEPS = 64, DOUBLINGS = 40, MOST_EVENTS = 256, DRAIN_S = 2 };
#define SECOND 1000000000LL

struct patch { uint32_t at, width, kind; }; /* kind: 'd' or 'x' the request's number, 't' the time in ms */

struct request {
    uint32_t length, patches;
    struct patch *patch;
    char *bytes;
};

struct slot {
    struct request *ring;
    uint32_t requests, next;
    int64_t since;     /* when its request left, or was due; 0: free */
    uint64_t sequence; /* the number of that request on its connection */
};

struct connection {
    int descriptor, writing;
    struct slot *slots;
    char *in, *out;
    size_t in_length, in_room, out_length, out_sent, out_room;
    uint64_t sent, oldest;     /* requests sent; the first of them without an answer */
    uint16_t order[REMEMBERED]; /* which slot sent a request, by its number */
};

struct cpu { double servers, own, machine; };

static reader *read_answer;
static int window, connections, poll_descriptor;
static int numbered; /* answers carry the number of the request on its connection, not its slot */
static struct connection *all;
static uint64_t histogram[DOUBLINGS * STEPS], answers, messages, errors, received, number, waiting;
static char first_error[400];
static int counting, stopping, once;
static volatile sig_atomic_t told_to_end;

/* Fixed rate: slots that wait for the next request, as connection * window + slot. */
static uint32_t *free_slots, free_head, free_count, slots;
static double rate;
static int64_t rate_start, end_of_run;
static uint64_t due;

static int64_t now_ns(clockid_t clock)
{
    struct timespec at;
    clock_gettime(clock, &at);
    return at.tv_sec * SECOND + at.tv_nsec;
}

static void die(const char *what)
{
    fprintf(stderr, "load: %s: %s\n", what, errno ? strerror(errno) : "unexpected");
    exit(1);
}

static void *room(size_t size)
{
    void *made = calloc(1, size ? size : 1);
    if (!made)
        die("memory");
    return made;
}

/* --- latencies */

static void note_latency(int64_t ns)
{
    uint64_t value = ns < STEPS ? STEPS : (uint64_t)ns;
    int doubling = 63 - __builtin_clzll(value); /* value lies in [2^doubling, 2^(doubling+1)) */
    uint64_t step = (value >> (doubling - 6)) & (STEPS - 1);
    uint64_t place = (uint64_t)doubling * STEPS + step;
    histogram[place < DOUBLINGS * STEPS ? place : DOUBLINGS * STEPS - 1]++;
}

static double latency_us(double share) /* the middle of the step below which that share of the answers lies */
{
    uint64_t below = 0, wanted = (uint64_t)(share * (double)answers);
    for (int place = 0; place < DOUBLINGS * STEPS; place++)
        if ((below += histogram[place]) > wanted)
            return (double)(1LL << (place / STEPS)) * (1 + (place % STEPS + 0.5) / STEPS) / 1000;
    return 0;
}

/* --- requests */

static uint32_t read_u32(void)
{
    uint32_t value;
    if (fread(&value, sizeof value, 1, stdin) != 1)
        die("requests end early");
    return value;
}

static void read_requests(struct slot *slot)
{
    slot->requests = read_u32();
    slot->ring = room(slot->requests * sizeof *slot->ring);
    for (struct request *one = slot->ring; one < slot->ring + slot->requests; one++) {
        one->length = read_u32();
        one->patches = read_u32();
        one->patch = room(one->patches * sizeof *one->patch);
        one->bytes = room(one->length);
        if (fread(one->patch, sizeof *one->patch, one->patches, stdin) != one->patches
            || fread(one->bytes, 1, one->length, stdin) != one->length)
            die("requests end early");
    }
}

static void fill_in(char *place, uint32_t width, uint64_t value, unsigned base)
{
    while (width--)
        place[width] = "0123456789ABCDEF"[value % base], value /= base;
}

static void put_request(struct connection *c, int index, int64_t since)
{
    struct slot *slot = &c->slots[index];
    struct request *one = &slot->ring[slot->next++ % slot->requests];
    number++;
    for (struct patch *patch = one->patch; patch < one->patch + one->patches; patch++)
        fill_in(one->bytes + patch->at, patch->width,
                patch->kind == 't' ? (uint64_t)(now_ns(CLOCK_REALTIME) / 1000000) : number,
                patch->kind == 'x' ? 16 : 10);
    if (c->out_length + one->length > c->out_room) {
        c->out_room = 2 * (c->out_length + one->length);
        if (!(c->out = realloc(c->out, c->out_room)))
            die("memory");
    }
    memcpy(c->out + c->out_length, one->bytes, one->length);
    c->out_length += one->length;
    c->order[c->sent % REMEMBERED] = (uint16_t)index;
    slot->sequence = c->sent++;
    slot->since = since;
    waiting++;
}

static void watch(struct connection *c, int operation)
{
    struct epoll_event event = {.events = EPOLLIN | (c->writing ? EPOLLOUT : 0), .data.ptr = c};
    if (epoll_ctl(poll_descriptor, operation, c->descriptor, &event))
        die("epoll_ctl");
}

static void write_out(struct connection *c)
{
    while (c->out_sent < c->out_length) {
        ssize_t sent = send(c->descriptor, c->out + c->out_sent, c->out_length - c->out_sent, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            die("send");
        if (sent < 0)
            break;
        c->out_sent += (size_t)sent;
    }
    int writing = c->out_sent < c->out_length;
    if (!writing)
        c->out_sent = c->out_length = 0;
    if (writing != c->writing) {
        c->writing = writing;
        watch(c, EPOLL_CTL_MOD);
    }
}

/* --- answers */

static void note_error(const struct answer *found)
{
    if (!errors++)
        snprintf(first_error, sizeof first_error, "%.*s", (int)found->error_length, found->error);
}

static void settle(struct connection *c, int index, const struct answer *found, int64_t now)
{
    struct slot *slot = &c->slots[index];
    if (!slot->since)
        return; /* answered before, by a later acknowledgement of "all until here" */
    if (found->error) {
        note_error(found);
    } else if (counting) {
        answers++;
        messages += (uint64_t)found->messages;
        note_latency(now - slot->since);
    }
    slot->since = 0;
    waiting--;
    if (stopping)
        return;
    if (rate > 0)
        free_slots[(free_head + free_count++) % slots] = (uint32_t)(c - all) * (uint32_t)window + (uint32_t)index;
    else if (!once || slot->next < slot->requests)
        put_request(c, index, now);
}

static void skip_answered(struct connection *c)
{
    while (c->oldest < c->sent) {
        struct slot *slot = &c->slots[c->order[c->oldest % REMEMBERED]];
        if (slot->since && slot->sequence == c->oldest)
            return;
        c->oldest++;
    }
}

static void settle_numbered(struct connection *c, const struct answer *found, int64_t now)
{
    uint64_t last = (uint64_t)found->slot, first = last;
    if (found->through)
        skip_answered(c), first = c->oldest;
    for (uint64_t one = first; one <= last; one++)
        if (c->slots[c->order[one % REMEMBERED]].sequence == one)
            settle(c, c->order[one % REMEMBERED], found, now);
}

static void take(struct connection *c, const struct answer *found, int64_t now)
{
    if (found->slot == NOBODY)
        return;
    if (found->slot == OLDEST) {
        skip_answered(c);
        settle(c, c->order[c->oldest % REMEMBERED], found, now);
    } else if (numbered) {
        settle_numbered(c, found, now);
    } else if (found->slot < window) {
        settle(c, found->slot, found, now);
    } else {
        die("an answer to a request that was not sent");
    }
}

static void read_in(struct connection *c)
{
    if (c->in_room - c->in_length < READ_SIZE) {
        c->in_room = 2 * c->in_room + READ_SIZE;
        if (!(c->in = realloc(c->in, c->in_room)))
            die("memory");
    }
    ssize_t got = recv(c->descriptor, c->in + c->in_length, READ_SIZE, 0);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0)
        die("the server closed the connection");
    c->in_length += (size_t)got;
    received += counting ? (uint64_t)got : 0;
    int64_t now = now_ns(CLOCK_MONOTONIC);
    size_t used = 0;
    while (used < c->in_length) {
        struct answer found = {.messages = 1};
        long length = read_answer(c->in + used, c->in_length - used, &found);
        if (length < 0)
            die("an answer that cannot be read");
        if (length == 0)
            break;
        take(c, &found, now);
        used += (size_t)length;
    }
    memmove(c->in, c->in + used, c->in_length -= used);
}

/* --- fixed rate */

static int64_t due_at(uint64_t k) { return rate_start + (int64_t)((double)k / rate * SECOND); }

static void send_what_is_due(int timer)
{
    int64_t now = now_ns(CLOCK_MONOTONIC);
    for (; free_count && !stopping && due_at(due) <= now; free_count--, due++) {
        uint32_t place = free_slots[free_head++ % slots];
        struct connection *c = &all[place / (uint32_t)window];
        put_request(c, (int)(place % (uint32_t)window), due_at(due));
        write_out(c);
    }
    int64_t next = due_at(due) > now ? due_at(due) : now + SECOND; /* late already: an answer frees a slot first */
    struct itimerspec at = {.it_value = {next / SECOND, next % SECOND}};
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL);
}

/* --- CPU time */

static double ticks_of(const char *path, const char *after, int skip, int fields)
{
    char text[4096], *rest;
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[length] = 0;
    rest = strstr(text, after);
    double sum = 0;
    for (int field = 0; rest && field < skip + fields; field++) {
        rest = strchr(rest, ' ');
        rest = rest ? rest + strspn(rest, " ") : NULL;
        sum += rest && field >= skip ? strtod(rest, NULL) : 0;
    }
    return sum / (double)sysconf(_SC_CLK_TCK);
}

static struct cpu cpu_now(const char *pids)
{
    struct cpu found = {0};
    struct rusage own;
    char path[64];
    for (const char *at = pids; *at; at += strcspn(at, ","), at += *at == ',') {
        snprintf(path, sizeof path, "/proc/%ld/stat", strtol(at, NULL, 10));
        found.servers += ticks_of(path, ") ", 11, 2); /* user and system time of all its threads */
    }
    getrusage(RUSAGE_SELF, &own);
    found.own = (double)(own.ru_utime.tv_sec + own.ru_stime.tv_sec)
              + (double)(own.ru_utime.tv_usec + own.ru_stime.tv_usec) / 1e6;
    /* user, nice, system, and without idle and iowait: interrupts and what the host took */
    found.machine = ticks_of("/proc/stat", "cpu ", 0, 3) + ticks_of("/proc/stat", "cpu ", 5, 3);
    return found;
}

/* --- the run */

static void end_early(int signal) { told_to_end = signal; }

static int is_over(void) { return told_to_end || (once && !waiting) || now_ns(CLOCK_MONOTONIC) >= end_of_run; }

static void turn(struct connection *timer_mark, int timer)
{
    struct epoll_event events[MOST_EVENTS];
    int found = epoll_wait(poll_descriptor, events, MOST_EVENTS, 10);
    for (int i = 0; i < found; i++) {
        struct connection *c = events[i].data.ptr;
        if (c == timer_mark) {
            uint64_t expired;
            if (read(timer, &expired, sizeof expired) < 0 && errno != EAGAIN)
                die("timer");
            continue;
        }
        if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
            read_in(c);
        write_out(c);
    }
    if (rate > 0)
        send_what_is_due(timer);
}

static void print_text(const char *text) /* as a JSON string, ASCII only */
{
    putchar('"');
    for (; *text; text++)
        if (*text < ' ' || *text > '~' || *text == '"' || *text == '\\')
            printf("\\u%04x", (uint8_t)*text);
        else
            putchar(*text);
    putchar('"');
}

static void print_result(double seconds, struct cpu before, struct cpu after)
{
    uint64_t behind = 0; /* due and never sent: more than that rate's share of the last moment says "overloaded" */
    if (rate > 0)
        while (due_at(due + behind) < end_of_run)
            behind++;
    printf("{\"seconds\":%.6f,\"answers\":%llu,\"messages\":%llu,\"errors\":%llu,", seconds,
           (unsigned long long)answers, (unsigned long long)messages, (unsigned long long)errors);
    printf("\"received\":%llu,\"unanswered\":%llu,", (unsigned long long)received,
           (unsigned long long)(waiting + behind));
    printf("\"p50_us\":%.1f,\"p90_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,\"max_us\":%.1f,", latency_us(0.5),
           latency_us(0.9), latency_us(0.99), latency_us(0.999), latency_us(0.9999999));
    printf("\"servers_cpu\":%.4f,\"own_cpu\":%.4f,\"machine_cpu\":%.4f,", after.servers - before.servers,
           after.own - before.own, after.machine - before.machine);
    printf("\"first_error\":");
    print_text(first_error);
    printf("}\n");
}

static void begin(int count, char **descriptors)
{
    connections = count;
    all = room((size_t)count * sizeof *all);
    slots = free_count = (uint32_t)(count * window);
    free_slots = room(slots * sizeof *free_slots);
    for (int i = 0; i < count; i++) {
        struct connection *c = &all[i];
        c->descriptor = atoi(descriptors[i]);
        c->slots = room((size_t)window * sizeof *c->slots);
        for (int slot = 0; slot < window; slot++) {
            read_requests(&c->slots[slot]);
            free_slots[slot * count + i] = (uint32_t)(i * window + slot); /* one of each connection in turn */
        }
        if (fcntl(c->descriptor, F_SETFL, O_NONBLOCK))
            die("descriptor");
        watch(c, EPOLL_CTL_ADD);
    }
}

int main(int count, char **given)
{
    if (count < 8 || !(read_answer = find_reader(given[1])))
        return fprintf(stderr, "usage: load PROTOCOL WINDOW WARM_UP SECONDS RATE PIDS DESCRIPTOR...\n"), 2;
    numbered = strcmp(given[1], "amqp") == 0;
    window = atoi(given[2]);
    double warm_up = atof(given[3]), seconds = atof(given[4]);
    once = strcmp(given[5], "once") == 0;
    rate = once ? 0 : atof(given[5]);
    signal(SIGTERM, end_early);
    poll_descriptor = epoll_create1(0);
    begin(count - 7, given + 7);
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    static struct connection timer_mark;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &timer_mark};
    epoll_ctl(poll_descriptor, EPOLL_CTL_ADD, timer, &event);

    int64_t start = rate_start = now_ns(CLOCK_MONOTONIC);
    for (struct connection *c = all; rate == 0 && c < all + connections; c++) {
        for (int slot = 0; slot < window; slot++)
            put_request(c, slot, start);
        write_out(c);
    }
    if (rate > 0)
        send_what_is_due(timer);
    while (now_ns(CLOCK_MONOTONIC) < start + (int64_t)(warm_up * SECOND))
        turn(&timer_mark, timer);
    puts("warm");
    fflush(stdout);
    struct cpu before = cpu_now(given[6]);
    int64_t begun = now_ns(CLOCK_MONOTONIC);
    end_of_run = begun + (int64_t)(seconds * SECOND);
    counting = 1;
    while (!is_over())
        turn(&timer_mark, timer);
    struct cpu after = cpu_now(given[6]);
    end_of_run = now_ns(CLOCK_MONOTONIC);
    double took = (double)(end_of_run - begun) / SECOND;
    counting = 0, stopping = 1;
    while (waiting && now_ns(CLOCK_MONOTONIC) < end_of_run + DRAIN_S * SECOND)
        turn(&timer_mark, timer);
    print_result(took, before, after);
    return 0;
}

/* Load of growing conversations, so that "known history" and "first sight" can be told apart.
 *
 * usage: load PORT TEMPLATE CONNS TALKS PRIME STEPS MAX_SECONDS [STREAM]
 *
 * TEMPLATE is a request body in three parts, separated by a NUL byte: opening with the
 * history, one more step (about 2 KB), the close. In each part a slot of sixteen '@' is
 * filled with the number of the conversation (history) or of the step (step), so
 * that no two conversations, and no two steps, have a message in common. There may be
 * several steps: a conversation takes one after the other, and goes on with the last.
 *
 * A talk is one conversation: its request number k holds the history and k steps. TALKS of
 * them are spread over CONNS connections, each talk with one request in flight at most.
 * First PRIME requests of each talk are sent; then "primed" is printed and a byte awaited
 * on stdin; then STEPS more of each are sent and measured. With PRIME 0 each measured request
 * opens a new conversation: first sight. STREAM is the value of X-Bench-Stream of those that
 * are measured. Lines in the environment's BENCH_HEADERS are sent along.
 *
 * Prints one JSON line; latency is from the first byte sent to the last one received, in ms.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SLOT = 16, HEAD_ROOM = 1024, TAIL_MAX = 64, CONNS_MAX = 256, STEPS_MAX = 16 };

struct part { char *bytes; size_t len, *slots, slot_count; };
struct talk { char *request; size_t start, history_end, end, room; int steps; long long taken; };
struct conn {
    int fd, waits_for_room, is_chunked, in_head;
    struct talk *talk;
    size_t sent, head_len;
    char head[8192], tail[TAIL_MAX], line[512];
    size_t tail_len, line_len;
    long long t0, first, left;
};

static struct part history, step[STEPS_MAX], closing;
static size_t step_count, longest_step;
static struct talk *talks, **queue;
static struct conn conns[CONNS_MAX];
static int port, poller, talk_count, queue_head, queue_len, is_fresh, is_primed;
static const char *stream, *headers = "";
static long long next_number, most_each, wanted, begun, finished, errors, bad_status, event_count, byte_count;
static double *latency, *first_byte, *transit;
static size_t latency_count, transit_count, transit_room;

static long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void fail(const char *what) { perror(what); exit(1); }

static struct part read_part(char *bytes, size_t len) {
    struct part p = {.bytes = bytes, .len = len, .slots = calloc(len / SLOT + 1, sizeof(size_t))};
    static const char mark[] = "@@@@@@@@@@@@@@@@";
    for (char *at = bytes; (at = memmem(at, bytes + len - at, mark, SLOT)); at += SLOT)
        p.slots[p.slot_count++] = at - bytes;
    return p;
}

static void read_template(const char *path) {
    int fd = open(path, O_RDONLY);
    struct stat s;
    if (fd < 0 || fstat(fd, &s)) fail(path);
    char *all = malloc(s.st_size + 1);
    for (ssize_t got = 0, n; got < s.st_size; got += n)
        if ((n = read(fd, all + got, s.st_size - got)) <= 0) fail(path);
    close(fd);
    char *end = all + s.st_size, *at = all, *next;
    for (size_t i = 0; (next = memchr(at, 0, end - at)); i++, at = next + 1) {
        if (i == STEPS_MAX + 1) { fprintf(stderr, "template has too many steps\n"); exit(2); }
        struct part p = read_part(at, next - at);
        if (!i) { history = p; continue; }
        step[step_count++] = p;
        if (p.len > longest_step) longest_step = p.len;
    }
    if (!step_count) { fprintf(stderr, "template needs three parts\n"); exit(2); }
    closing = read_part(at, end - at);
}

static void put_part(char *to, const struct part *p, long long number) {
    char digits[SLOT + 1];
    snprintf(digits, sizeof digits, "%016llx", number);
    memcpy(to, p->bytes, p->len);
    for (size_t i = 0; i < p->slot_count; i++) memcpy(to + p->slots[i], digits, SLOT);
}

/* Begin the talk anew under a number of its own. */
static void renew(struct talk *t) {
    put_part(t->request + HEAD_ROOM, &history, ++next_number);
    t->history_end = HEAD_ROOM + history.len;
    t->steps = 0;
}

/* Append one step and the close, and put a head with the right length before the body. */
static void extend(struct talk *t) {
    if (is_fresh || t->steps == 0) renew(t);
    const struct part *p = &step[(size_t)t->steps < step_count ? (size_t)t->steps : step_count - 1];
    /* Whose answers come sooner than others' takes more of the steps: it grows further. */
    size_t needed = t->history_end + p->len + closing.len;
    if (needed > t->room) {
        t->room = 2 * needed;
        t->request = realloc(t->request, t->room);
        if (!t->request) fail("realloc");
    }
    put_part(t->request + t->history_end, p, ++next_number);
    t->history_end += p->len;
    memcpy(t->request + t->history_end, closing.bytes, closing.len);
    t->end = t->history_end + closing.len;
    t->steps++;
    char head[HEAD_ROOM], extra[96] = "";
    /* One event is enough of an answer that only makes a history known. */
    if (stream) snprintf(extra, sizeof extra, "X-Bench-Stream: %s\r\n", is_primed ? stream : "1,0");
    int n = snprintf(head, sizeof head,
        "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer bench\r\n"
        "Content-Type: application/json\r\nAccept: */*\r\nUser-Agent: bench-load\r\n%s%s"
        "Content-Length: %zu\r\n\r\n", port, headers, extra, t->end - HEAD_ROOM);
    t->start = HEAD_ROOM - n;
    memcpy(t->request + t->start, head, n);
}

static void connect_to(struct conn *c) {
    int one = 1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(c->fd, (void *)&at, sizeof at)) fail("connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &e);
    c->waits_for_room = 0;
}

static void pump(struct conn *c) {
    struct talk *t = c->talk;
    while (c->sent < t->end) {
        ssize_t n = send(c->fd, t->request + c->sent, t->end - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) break; /* Full, or gone: then the next read tells. */
        c->sent += n;
    }
    int waits = c->sent < t->end;
    if (waits == c->waits_for_room) return;
    struct epoll_event e = {.events = EPOLLIN | (waits ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &e);
    c->waits_for_room = waits;
}

static void begin(struct conn *c) {
    c->talk = NULL;
    if (begun >= wanted || !queue_len) return;
    begun++;
    c->talk = queue[queue_head];
    c->talk->taken++;
    queue_head = (queue_head + 1) % talk_count;
    queue_len--;
    extend(c->talk);
    c->sent = c->talk->start;
    c->in_head = 1;
    c->head_len = c->tail_len = c->line_len = 0;
    c->first = 0;
    c->t0 = now_ns();
    pump(c);
}

static void finish(struct conn *c, int is_ok) {
    long long now = now_ns();
    finished++;
    if (is_ok) {
        latency[latency_count] = (now - c->t0) / 1e6;
        first_byte[latency_count++] = (c->first - c->t0) / 1e6;
    } else {
        errors++;
        close(c->fd);
        connect_to(c);
    }
    if (c->talk->taken < most_each) queue[(queue_head + queue_len++) % talk_count] = c->talk;
    begin(c);
}

static void take_stamps(struct conn *c, const char *bytes, size_t n, long long now) {
    while (n) {
        const char *end = memchr(bytes, '\n', n);
        size_t take = end ? (size_t)(end - bytes) + 1 : n;
        size_t keep = take < sizeof c->line - c->line_len ? take : sizeof c->line - c->line_len;
        memcpy(c->line + c->line_len, bytes, keep);
        c->line_len += keep;
        bytes += take;
        n -= take;
        if (!end) return;
        const char *stamp = memmem(c->line, c->line_len, " t=", 3);
        if (stamp) {
            event_count++;
            if (transit_count < transit_room)
                transit[transit_count++] = (now - strtoll(stamp + 3, NULL, 10)) / 1e6;
        }
        c->line_len = 0;
    }
}

/* Take bytes of an answer's body; 1 when it is complete. The end of a chunked one is known by
 * its last bytes, which no event of the upstream holds. */
static int take_body(struct conn *c, const char *bytes, size_t n, long long now) {
    if (n && !c->first) c->first = now;
    byte_count += n;
    if (stream) take_stamps(c, bytes, n, now);
    if (!c->is_chunked) return (c->left -= n) <= 0;
    static const char last[] = "\r\n0\r\n\r\n";
    size_t want = sizeof last - 1;
    for (size_t i = n > want ? n - want : 0; i < n; i++) {
        if (c->tail_len == want) memmove(c->tail, c->tail + 1, --c->tail_len);
        c->tail[c->tail_len++] = bytes[i];
    }
    return c->tail_len == want && !memcmp(c->tail, last, want);
}

static int take(struct conn *c, const char *bytes, size_t n, long long now) {
    if (!c->in_head) return take_body(c, bytes, n, now);
    size_t room = sizeof c->head - 1 - c->head_len, copied = n < room ? n : room, before = c->head_len;
    memcpy(c->head + before, bytes, copied);
    c->head_len += copied;
    c->head[c->head_len] = 0;
    char *end = strstr(c->head, "\r\n\r\n");
    if (!end) return 0;
    size_t used = end + 4 - c->head - before;
    end[2] = 0;
    c->in_head = 0;
    if (memcmp(c->head + 9, "200", 3)) bad_status++;
    c->is_chunked = strcasestr(c->head, "\ntransfer-encoding: chunked") != NULL;
    char *length = strcasestr(c->head, "\ncontent-length:");
    c->left = length ? strtoll(length + 16, NULL, 10) : 0;
    return take_body(c, bytes + used, n - used, now);
}

static void serve(struct conn *c, unsigned events) {
    static char scratch[1 << 18];
    if (events & EPOLLOUT && c->talk) pump(c);
    if (!(events & ~EPOLLOUT)) return;
    ssize_t n = recv(c->fd, scratch, sizeof scratch, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) return;
    if (n > 0 && c->talk) {
        if (take(c, scratch, n, now_ns())) finish(c, 1);
    } else if (c->talk) {
        finish(c, 0);
    } else {
        close(c->fd); /* Closed while idle: a server may. */
        connect_to(c);
    }
}

/* Send `rounds` requests for each talk, or stop at the deadline. No talk takes more than `most`:
 * where each has its share, all stand at the same step behind it. */
static void run(int conn_count, long long rounds, long long most, long long deadline) {
    struct epoll_event ready[128];
    begun = finished = queue_head = 0;
    queue_len = talk_count;
    most_each = most;
    for (int i = 0; i < talk_count; i++) {
        queue[i] = &talks[i];
        talks[i].taken = 0;
    }
    wanted = rounds * talk_count;
    for (int i = 0; i < conn_count; i++) begin(&conns[i]);
    while (finished < wanted && now_ns() < deadline) {
        int n = epoll_wait(poller, ready, 128, 100);
        for (int i = 0; i < n; i++) serve(ready[i].data.ptr, ready[i].events);
    }
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double percentile(double *values, size_t n, double p) {
    if (!n) return 0;
    qsort(values, n, sizeof *values, compare);
    return values[(size_t)(p * (n - 1) + 0.5)];
}

int main(int argc, char **argv) {
    if (argc < 8) return fprintf(stderr, "usage: load PORT TEMPLATE CONNS TALKS PRIME STEPS MAX_SECONDS [STREAM]\n"), 2;
    signal(SIGPIPE, SIG_IGN);
    port = atoi(argv[1]);
    read_template(argv[2]);
    int conn_count = atoi(argv[3]), prime = atoi(argv[5]), steps = atoi(argv[6]);
    talk_count = atoi(argv[4]);
    long long limit = atof(argv[7]) * 1e9;
    stream = argc > 8 ? argv[8] : NULL;
    if (getenv("BENCH_HEADERS")) headers = getenv("BENCH_HEADERS");
    if (strlen(headers) > HEAD_ROOM / 2) return 2;
    if (conn_count < 1 || conn_count > CONNS_MAX || talk_count < conn_count) return 2;
    int most = prime + steps + 1;
    is_fresh = prime == 0;
    talks = calloc(talk_count, sizeof *talks);
    queue = calloc(talk_count, sizeof *queue);
    for (int i = 0; i < talk_count; i++) {
        talks[i].room = HEAD_ROOM + history.len + (is_fresh ? 2 : most) * longest_step + closing.len;
        talks[i].request = malloc(talks[i].room);
    }
    size_t room = (size_t)talk_count * (most + 1);
    latency = malloc(room * sizeof *latency);
    first_byte = malloc(room * sizeof *first_byte);
    if (stream) transit_room = (size_t)talk_count * steps * atoi(stream);
    transit = malloc((transit_room + 1) * sizeof *transit);
    /* Distinct numbers in distinct runs: a proxy may remember the conversations of the last. */
    next_number = now_ns() << 8 & INT64_MAX;
    poller = epoll_create1(0);
    for (int i = 0; i < conn_count; i++) connect_to(&conns[i]);
    int first = is_fresh ? 1 : prime;
    run(conn_count, first, first, now_ns() + limit);
    if (finished < wanted) return fprintf(stderr, "priming took too long\n"), 3;
    printf("primed\n");
    fflush(stdout);
    if (getchar() == EOF) return 1;
    is_primed = 1;
    latency_count = transit_count = 0;
    errors = bad_status = event_count = byte_count = 0;
    long long t0 = now_ns();
    run(conn_count, steps, LLONG_MAX, t0 + limit);
    double wall = (now_ns() - t0) / 1e9;
    printf("{\"requests\": %zu, \"errors\": %lld, \"bad_status\": %lld, \"wall_seconds\": %.6f, "
           "\"p50_ms\": %.5f, \"p99_ms\": %.5f, \"first_byte_p50_ms\": %.5f, \"events\": %lld, "
           "\"transit_p50_ms\": %.5f, \"transit_p99_ms\": %.5f, \"request_bytes\": %zu}\n",
           latency_count, errors, bad_status, wall, percentile(latency, latency_count, .5),
           percentile(latency, latency_count, .99), percentile(first_byte, latency_count, .5),
           event_count, percentile(transit, transit_count, .5), percentile(transit, transit_count, .99),
           talks[0].end - talks[0].start);
    return 0;
}

/* A provider that costs next to nothing: answers POSTs with a chat completion.
 *
 * usage: upstream PORT [EVENTS,GAP_MICROSECONDS]
 *
 * The body is counted and thrown away. Usage is derived from its length, so that the
 * proxy's accounting has work to do. A request with the header
 *     X-Bench-Stream: EVENTS,GAP_MICROSECONDS
 * gets a stream of server-sent events instead; each carries "t=<ns>", the monotonic
 * time at which it was written, so that the client can tell how long it was under way.
 * The second argument does that to every request: not every proxy hands headers on.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { HEAD_MAX = 32768, OUT_MAX = 1 << 16, CONNS_MAX = 4096, SCRATCH = 1 << 19 };
enum state { HEAD, BODY, CHUNK_SIZE, CHUNK_BODY, CHUNK_END, STREAM };

struct conn {
    enum state state;
    char head[HEAD_MAX], out[OUT_MAX], line[32];
    size_t head_len, out_len, out_sent, line_len;
    long long left, got;
    int fd, events, sent_events, waits_for_room;
    long long gap, next;
};

static struct conn *conns[CONNS_MAX];
static char scratch[SCRATCH];
static int poller, open_streams;
static const char *always;

static long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void drop(struct conn *c) {
    if (c->state == STREAM) open_streams--;
    conns[c->fd] = NULL;
    close(c->fd);
    free(c);
}

/* Write what is buffered; 0 when the connection is gone. */
static int flush_out(struct conn *c) {
    while (c->out_sent < c->out_len) {
        ssize_t n = send(c->fd, c->out + c->out_sent, c->out_len - c->out_sent, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN) return drop(c), 0;
        if (n < 0) break;
        c->out_sent += n;
    }
    int waits = c->out_sent < c->out_len;
    if (waits != c->waits_for_room) {
        struct epoll_event e = {.events = EPOLLIN | (waits ? EPOLLOUT : 0), .data.fd = c->fd};
        epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &e);
        c->waits_for_room = waits;
    }
    if (!waits) c->out_len = c->out_sent = 0;
    return 1;
}

static void put(struct conn *c, const char *bytes, size_t n) {
    if (c->out_len + n > OUT_MAX) return; /* A client that does not read loses events. */
    memcpy(c->out + c->out_len, bytes, n);
    c->out_len += n;
}

static void put_event(struct conn *c, const char *json) {
    char frame[1024];
    int n = snprintf(frame, sizeof frame, "%zx\r\ndata: %s\n\n\r\n", strlen(json) + 8, json);
    put(c, frame, n);
}

static int usage_json(struct conn *c, char *into, size_t room) {
    long long tokens = c->got / 4 + 1;
    return snprintf(into, room,
        "\"usage\":{\"prompt_tokens\":%lld,\"completion_tokens\":64,\"total_tokens\":%lld,"
        "\"prompt_tokens_details\":{\"cached_tokens\":%lld}}",
        tokens, tokens + 64, tokens / 128 * 112);
}

static int answer_json(struct conn *c) {
    static const char text[] =
        "The answer is forwarded as it is. It is as long as a short reply of a model, so that "
        "the way back is not measured on an empty body. A few sentences are enough for that. ";
    char usage[256], body[2048], head[256];
    usage_json(c, usage, sizeof usage);
    int n = snprintf(body, sizeof body,
        "{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion\",\"created\":1750000000,"
        "\"model\":\"bench\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
        "\"content\":\"%s%s\"},\"finish_reason\":\"stop\"}],%s}", text, text, usage);
    int h = snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        "Content-Length: %d\r\n\r\n", n);
    put(c, head, h);
    put(c, body, n);
    c->state = HEAD;
    return flush_out(c);
}

static int step_stream(struct conn *c, long long now) {
    static const char common[] = "{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\","
        "\"created\":1750000000,\"model\":\"bench\",\"choices\":[";
    char json[768], usage[256];
    while (c->sent_events < c->events && now >= c->next) {
        snprintf(json, sizeof json, "%s{\"index\":0,\"delta\":{\"content\":\" t=%lld \"},"
            "\"finish_reason\":null}]}", common, now_ns());
        put_event(c, json);
        c->sent_events++;
        c->next += c->gap;
        if (!flush_out(c)) return 0;
    }
    if (c->sent_events < c->events) return 1;
    usage_json(c, usage, sizeof usage);
    snprintf(json, sizeof json, "%s{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}", common);
    put_event(c, json);
    snprintf(json, sizeof json, "%s],%s}", common, usage);
    put_event(c, json);
    put_event(c, "[DONE]");
    put(c, "0\r\n\r\n", 5);
    c->state = HEAD;
    open_streams--;
    return flush_out(c);
}

static const char *header(struct conn *c, const char *name) {
    char *found = strcasestr(c->head, name);
    return found ? found + strlen(name) : NULL;
}

static int answer(struct conn *c) {
    const char *stream = always ? always : header(c, "\nx-bench-stream: ");
    if (!stream) return answer_json(c);
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        "Transfer-Encoding: chunked\r\n\r\n";
    char *comma;
    c->events = strtol(stream, &comma, 10);
    c->gap = *comma == ',' ? strtoll(comma + 1, NULL, 10) * 1000 : 0;
    c->sent_events = 0;
    c->state = STREAM;
    open_streams++;
    c->next = now_ns();
    put(c, head, sizeof head - 1);
    return step_stream(c, c->next);
}

/* Take the head from the bytes; returns how many were used, or -1 when the conn is gone. */
static ssize_t take_head(struct conn *c, const char *bytes, size_t n) {
    size_t before = c->head_len, room = HEAD_MAX - 1 - before, take = n < room ? n : room;
    memcpy(c->head + before, bytes, take);
    c->head_len += take;
    c->head[c->head_len] = 0;
    char *end = strstr(c->head + (before > 3 ? before - 3 : 0), "\r\n\r\n");
    if (!end && take == room) return drop(c), -1;
    if (!end) return take;
    end[2] = 0;
    ssize_t used = end + 4 - c->head - before;
    c->head_len = c->line_len = 0;
    c->got = 0;
    const char *length = header(c, "\ncontent-length:");
    c->left = length ? strtoll(length, NULL, 10) : 0;
    c->state = header(c, "\ntransfer-encoding: chunked") ? CHUNK_SIZE : BODY;
    if (c->state == BODY && c->left == 0 && !answer(c)) return -1;
    return used;
}

static size_t take_body(struct conn *c, size_t n) {
    size_t take = (long long)n < c->left ? n : (size_t)c->left;
    c->left -= take;
    c->got += take;
    return take;
}

/* One byte of chunk framing; 0 when the connection is gone. */
static int take_framing(struct conn *c, char byte) {
    if (byte != '\n') {
        if (byte != '\r' && c->line_len < sizeof c->line - 1) c->line[c->line_len++] = byte;
        return 1;
    }
    c->line[c->line_len] = 0;
    size_t length = c->line_len;
    c->line_len = 0;
    if (c->state == CHUNK_END) return length ? 1 : answer(c); /* Trailers are skipped. */
    c->left = strtoll(c->line, NULL, 16);
    c->state = c->left ? CHUNK_BODY : CHUNK_END;
    return 1;
}

static void feed(struct conn *c, const char *bytes, size_t n) {
    while (n) {
        ssize_t used = 1;
        if (c->state == HEAD) {
            if ((used = take_head(c, bytes, n)) < 0) return;
        } else if (c->state == BODY) {
            used = take_body(c, n);
            if (c->left == 0 && !answer(c)) return;
        } else if (c->state == CHUNK_BODY) {
            if (c->left > 0) used = take_body(c, n);
            else if (*bytes == '\n') c->state = CHUNK_SIZE;
        } else if (c->state == STREAM) {
            return; /* No pipelining behind a stream. */
        } else if (!take_framing(c, *bytes)) {
            return;
        }
        bytes += used;
        n -= used;
    }
}

static void accept_all(int listener) {
    int fd, one = 1;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        struct conn *c = fd < CONNS_MAX ? calloc(1, sizeof *c) : NULL;
        if (!c) { close(fd); continue; }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e);
        c->fd = fd;
        conns[fd] = c;
    }
}

static void serve(struct conn *c, unsigned events) {
    if (events & EPOLLOUT && !flush_out(c)) return;
    if (!(events & ~EPOLLOUT)) return;
    ssize_t n = recv(c->fd, scratch, SCRATCH, 0);
    if (n > 0) feed(c, scratch, n);
    else if (n == 0 || errno != EAGAIN) drop(c);
}

/* Serve the streams that are due; returns the wait until the next one, or -1. */
static long long step_streams(void) {
    long long now = now_ns(), soonest = -1;
    for (int fd = 0, seen = 0, all = open_streams; fd < CONNS_MAX && seen < all; fd++) {
        struct conn *c = conns[fd];
        if (!c || c->state != STREAM) continue;
        seen++;
        if (now >= c->next && !step_stream(c, now)) continue;
        if (c->state != STREAM) continue;
        long long wait = c->next > now ? c->next - now : 0;
        if (soonest < 0 || wait < soonest) soonest = wait;
    }
    return soonest;
}

int main(int argc, char **argv) {
    if (argc < 2) return fprintf(stderr, "usage: upstream PORT [EVENTS,GAP]\n"), 2;
    always = argc > 2 ? argv[2] : NULL;
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1])),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(listener, (void *)&at, sizeof at) || listen(listener, 1024)) return perror("bind"), 1;
    poller = epoll_create1(0);
    struct epoll_event e = {.events = EPOLLIN, .data.fd = listener}, ready[128];
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &e);
    for (;;) {
        long long wait = open_streams ? step_streams() : -1;
        struct timespec t = {wait / 1000000000, wait % 1000000000};
        int n = epoll_pwait2(poller, ready, 128, wait < 0 ? NULL : &t, NULL);
        for (int i = 0; i < n; i++) {
            int fd = ready[i].data.fd;
            if (fd == listener) accept_all(listener);
            else if (conns[fd]) serve(conns[fd], ready[i].events);
        }
    }
}

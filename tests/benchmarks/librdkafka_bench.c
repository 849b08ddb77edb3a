/* Produces records through librdkafka as fast as it goes: the reference of the core benchmark.
 *
 *   librdkafka_bench LIBRARY TOPIC PAYLOAD_FILE WARM_UP RECORDS [name=value ...]
 *
 * The payload file holds one record per line; its lines are sent round and round. The library is
 * loaded at run time and the few functions used are declared here, so that neither headers nor a
 * development package are needed. Two phases, each flushed: a warm-up, and the one that counts.
 * Prints one JSON object: acknowledged records, failed records, wall seconds, CPU seconds of all
 * threads, peak memory in MiB, the library's version.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { PRODUCER = 0, CONF_OK = 0, QUEUE_FULL = -184, ANY_PARTITION = -1, POLL_EVERY = 1024 };

typedef struct client client;
typedef struct conf conf;
typedef struct topic topic;
typedef struct message { /* the first field of rd_kafka_message_t */
    int error;
} message;
typedef void delivered(client *, const message *, void *);

static conf *(*conf_new)(void);
static int (*conf_set)(conf *, const char *, const char *, char *, size_t);
static void (*conf_on_delivery)(conf *, delivered *);
static client *(*client_new)(int, conf *, char *, size_t);
static topic *(*topic_new)(client *, const char *, void *);
static int (*produce)(topic *, int32_t, int, void *, size_t, const void *, size_t, void *);
static int (*poll_events)(client *, int);
static int (*flush)(client *, int);
static int (*last_error)(void);
static const char *(*version)(void);

static long acknowledged, failed;

typedef struct {
    char **starts;
    size_t *sizes;
    long count;
} payload;

static void die(const char *what, const char *detail) {
    fprintf(stderr, "librdkafka_bench: %s: %s\n", what, detail);
    exit(1);
}

static void *function(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (!found)
        die("no such function", name);
    return found;
}

static void load(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        die("cannot load", dlerror());
    conf_new = function(library, "rd_kafka_conf_new");
    conf_set = function(library, "rd_kafka_conf_set");
    conf_on_delivery = function(library, "rd_kafka_conf_set_dr_msg_cb");
    client_new = function(library, "rd_kafka_new");
    topic_new = function(library, "rd_kafka_topic_new");
    produce = function(library, "rd_kafka_produce");
    poll_events = function(library, "rd_kafka_poll");
    flush = function(library, "rd_kafka_flush");
    last_error = function(library, "rd_kafka_last_error");
    version = function(library, "rd_kafka_version_str");
}

static payload read_payload(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file)
        die("cannot open", path);
    payload lines = {NULL, NULL, 0};
    char *line = NULL;
    size_t room = 0;
    for (ssize_t size; (size = getline(&line, &room, file)) > 0; line = NULL, room = 0) {
        lines.starts = realloc(lines.starts, (lines.count + 1) * sizeof *lines.starts);
        lines.sizes = realloc(lines.sizes, (lines.count + 1) * sizeof *lines.sizes);
        lines.starts[lines.count] = line;
        lines.sizes[lines.count++] = line[size - 1] == '\n' ? size - 1 : size;
    }
    fclose(file);
    if (!lines.count)
        die("no records in", path);
    return lines;
}

static void on_delivery(client *owner, const message *sent, void *context) {
    (void)owner, (void)context;
    if (sent->error)
        failed++;
    else
        acknowledged++;
}

static client *connect_with(int count, char **settings) {
    char error[512];
    conf *config = conf_new();
    for (int i = 0; i < count; i++) {
        char *value = strchr(settings[i], '=');
        if (!value)
            die("not name=value", settings[i]);
        *value++ = 0;
        if (conf_set(config, settings[i], value, error, sizeof error) != CONF_OK)
            die("setting refused", error);
    }
    conf_on_delivery(config, on_delivery);
    client *made = client_new(PRODUCER, config, error, sizeof error);
    if (!made)
        die("no producer", error);
    return made;
}

/* The payload stays where it is until the end, so librdkafka need not copy: its cheapest mode. */
static void send_all(client *owner, topic *to, const payload *lines, long records) {
    for (long i = 0; i < records; i++) {
        long line = i % lines->count;
        while (produce(to, ANY_PARTITION, 0, lines->starts[line], lines->sizes[line], NULL, 0,
                       NULL)) {
            if (last_error() != QUEUE_FULL)
                die("produce failed", "see librdkafka's log");
            poll_events(owner, 5);
        }
        if (i % POLL_EVERY == 0)
            poll_events(owner, 0);
    }
    if (flush(owner, 120000))
        die("flush", "not everything was acknowledged within two minutes");
}

static double wall_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static double cpu_seconds(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec
           + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static double peak_mib(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_maxrss / 1024.0;
}

int main(int count, char **arguments) {
    if (count < 6)
        die("usage", "LIBRARY TOPIC PAYLOAD_FILE WARM_UP RECORDS [name=value ...]");
    load(arguments[1]);
    payload lines = read_payload(arguments[3]);
    client *owner = connect_with(count - 6, arguments + 6);
    topic *to = topic_new(owner, arguments[2], NULL);
    send_all(owner, to, &lines, atol(arguments[4]));
    acknowledged = 0;
    double wall = wall_seconds(), cpu = cpu_seconds();
    send_all(owner, to, &lines, atol(arguments[5]));
    wall = wall_seconds() - wall, cpu = cpu_seconds() - cpu;
    printf("{\"records\": %ld, \"failed\": %ld, \"seconds\": %.6f, \"cpu_s\": %.6f, "
           "\"peak_mib\": %.1f, \"version\": \"%s\"}\n",
           acknowledged, failed, wall, cpu, peak_mib(), version());
    return failed ? 1 : 0;
}

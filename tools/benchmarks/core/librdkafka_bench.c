/* Produces records through librdkafka as fast as it goes: the reference of the core benchmark.
 *
 *   librdkafka_bench LIBRARY TOPIC PAYLOAD_FILE WARM_UP RECORDS [name=value ...]
 *
 * The payload file holds one record per line; its lines are sent round and round. The library is
 * loaded at run time and the few functions used are declared here, so that neither headers nor a
 * development package are needed. Two phases, each flushed: a warm-up, and the one that counts.
 * With bench.rate=N among the settings both are sent at N records a second, in bursts every
 * bench.burst.ms (5), each burst to the next of bench.partitions (8); the output then has the
 * percentiles of the time from the moment that a burst was due until each acknowledgement, in us.
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
typedef struct message { /* rd_kafka_message_t */
    int error;
    void *topic;
    int32_t partition;
    void *payload;
    size_t size;
    void *key;
    size_t key_size;
    int64_t offset;
    void *mine; /* what was given to produce(): when the record was due, in ns */
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
static long rate, burst_ms = 5, partitions = 8;
static uint32_t *waits; /* microseconds, one for each acknowledged record */

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

static double wall_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

static void on_delivery(client *owner, const message *sent, void *context) {
    (void)owner, (void)context;
    if (sent->error) {
        failed++;
        return;
    }
    if (waits)
        waits[acknowledged] = (uint32_t)(wall_seconds() * 1e6 - (uintptr_t)sent->mine / 1e3);
    acknowledged++;
}

static int is_ours(char *setting) {
    struct {
        const char *name;
        long *value;
    } own[] = {{"bench.rate=", &rate}, {"bench.burst.ms=", &burst_ms},
               {"bench.partitions=", &partitions}};
    for (int i = 0; i < 3; i++)
        if (!strncmp(setting, own[i].name, strlen(own[i].name))) {
            *own[i].value = atol(setting + strlen(own[i].name));
            return 1;
        }
    return 0;
}

static client *connect_with(int count, char **settings) {
    char error[512];
    conf *config = conf_new();
    for (int i = 0; i < count; i++) {
        if (is_ours(settings[i]))
            continue;
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

/* Delivery reports are taken as they come while the next burst is not due yet. */
static void send_paced(client *owner, topic *to, const payload *lines, long records) {
    long burst = rate * burst_ms / 1000, sent = 0;
    double start = wall_seconds();
    for (long number = 0; sent < records; number++) {
        double due = start + number * burst_ms / 1e3;
        for (double left; (left = due - wall_seconds()) > 0;)
            poll_events(owner, left > 2e-3 ? (int)(left * 1e3) - 1 : 0);
        void *mine = (void *)(uintptr_t)(due * 1e9);
        for (long i = 0; i < burst && sent < records; i++, sent++) {
            long line = sent % lines->count;
            if (produce(to, (int32_t)(number % partitions), 0, lines->starts[line],
                        lines->sizes[line], NULL, 0, mine))
                die("produce failed", "the queue is full at this rate");
        }
        poll_events(owner, 0);
    }
    if (flush(owner, 120000))
        die("flush", "not everything was acknowledged within two minutes");
}

static int by_size(const void *a, const void *b) {
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

static unsigned percentile(double q) {
    long place = (long)(q / 100 * acknowledged);
    return waits[place < acknowledged ? place : acknowledged - 1];
}

static double cpu_seconds(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_utime.tv_sec + used.ru_stime.tv_sec
           + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

/* VmHWM: ru_maxrss would count what the process that has started this one held. */
static double peak_mib(void) {
    char line[256];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmHWM: %ld", &kib) == 1)
            break;
    if (status)
        fclose(status);
    return kib / 1024.0;
}

int main(int count, char **arguments) {
    if (count < 6)
        die("usage", "LIBRARY TOPIC PAYLOAD_FILE WARM_UP RECORDS [name=value ...]");
    load(arguments[1]);
    payload lines = read_payload(arguments[3]);
    client *owner = connect_with(count - 6, arguments + 6);
    topic *to = topic_new(owner, arguments[2], NULL);
    (rate ? send_paced : send_all)(owner, to, &lines, atol(arguments[4]));
    acknowledged = 0;
    if (rate)
        waits = calloc(atol(arguments[5]), sizeof *waits);
    double wall = wall_seconds(), cpu = cpu_seconds();
    (rate ? send_paced : send_all)(owner, to, &lines, atol(arguments[5]));
    wall = wall_seconds() - wall, cpu = cpu_seconds() - cpu;
    printf("{");
    if (rate && acknowledged) {
        qsort(waits, acknowledged, sizeof *waits, by_size);
        printf("\"p50_us\": %u, \"p99_us\": %u, \"p999_us\": %u, \"max_us\": %u, ",
               percentile(50), percentile(99), percentile(99.9), waits[acknowledged - 1]);
    }
    printf("\"records\": %ld, \"failed\": %ld, \"seconds\": %.6f, \"cpu_s\": %.6f, "
           "\"peak_mib\": %.1f, \"version\": \"%s\"}\n",
           acknowledged, failed, wall, cpu, peak_mib(), version());
    return failed ? 1 : 0;
}

/*
 * A stand-in for libpfring, with the functions that the agent calls, for tests: it serves the packets of a capture
 * file (pcap, little-endian, microseconds). The environment says how:
 *
 *   STANDIN_PCAP   the file; without it there are no packets
 *   STANDIN_ERRNO  pfring_open fails with this errno
 *   STANDIN_DROP   every so manieth packet of a ring is counted as dropped and not handed over
 *   STANDIN_FAIL   the so manieth call of pfring_recv fails, once for each ring
 *   STANDIN_NS     packets have a time in nanoseconds: now
 *   STANDIN_END    pfring_recv says -2 after the last packet
 *   STANDIN_POLL   what pfring_poll returns at once; without it, it waits
 *   STANDIN_LOG    a file that says what was opened, and how
 *
 * Rings of one cluster share the packets by their IPv4 addresses. The device names "none..." are not known.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct header {
  int64_t seconds, microseconds;
  uint32_t captured, length;
  uint64_t timestamp_ns;
  uint8_t rest[177];
} __attribute__((packed));

struct statistics {
  uint64_t received, dropped, shunted;
};

struct ring {
  uint8_t *file;
  long size, at;
  unsigned member, cluster;
  int enabled, failed;
  long calls, due, limit;
  struct statistics counted;
};

/* All rings are opened by one thread before any is enabled. */
static unsigned members;

static long number(const char *name) {
  const char *text = getenv(name);
  return text ? atol(text) : 0;
}

static void say(const char *format, const char *text, long first, long second) {
  const char *path = getenv("STANDIN_LOG");
  FILE *log = path ? fopen(path, "a") : NULL;
  if (log) {
    fprintf(log, format, text, first, second);
    fclose(log);
  }
}

struct ring *pfring_open(const char *device, uint32_t caplen, uint32_t flags) {
  say("open %s %ld %ld\n", device, caplen, flags);
  if (getenv("STANDIN_ERRNO") || !strncmp(device, "none", 4)) {
    errno = getenv("STANDIN_ERRNO") ? number("STANDIN_ERRNO") : ENODEV;
    return NULL;
  }
  struct ring *ring = calloc(1, sizeof *ring);
  ring->limit = caplen;
  /* What was counted before the ring was enabled is not the ring's. */
  ring->counted.received = 1000;
  ring->counted.dropped = 100;
  FILE *file = getenv("STANDIN_PCAP") ? fopen(getenv("STANDIN_PCAP"), "rb") : NULL;
  if (file) {
    fseek(file, 0, SEEK_END);
    ring->size = ftell(file);
    rewind(file);
    ring->file = malloc(ring->size);
    if (fread(ring->file, 1, ring->size, file) != (size_t)ring->size) abort();
    fclose(file);
    ring->at = 24;
  }
  return ring;
}

int pfring_set_cluster(struct ring *ring, unsigned cluster, int type) {
  say("%s cluster %ld %ld\n", "set", cluster, type);
  ring->cluster = cluster;
  ring->member = members++;
  return 0;
}

int pfring_enable_ring(struct ring *ring) {
  ring->enabled = 1;
  return 0;
}

static int is_mine(const struct ring *ring, const uint8_t *packet, uint32_t captured) {
  if (!ring->cluster || captured < 34) return !ring->member;
  unsigned hash = 0;
  for (int at = 26; at < 34; at++) hash += packet[at];
  return hash % members == ring->member;
}

int pfring_recv(struct ring *ring, uint8_t **buffer, unsigned length, struct header *header, uint8_t wait) {
  if (!ring->enabled || length || wait) abort();
  if (++ring->calls == number("STANDIN_FAIL")) return -1;
  while (ring->at + 16 <= ring->size) {
    uint32_t fields[4];
    memcpy(fields, ring->file + ring->at, sizeof fields);
    uint8_t *packet = ring->file + ring->at + 16;
    ring->at += 16 + fields[2];
    if (!is_mine(ring, packet, fields[2])) continue;
    long drop = number("STANDIN_DROP");
    if (drop && ++ring->due % drop == 0) {
      ring->counted.dropped++;
      continue;
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    header->seconds = getenv("STANDIN_NS") ? 0 : now.tv_sec;
    header->microseconds = getenv("STANDIN_NS") ? 0 : now.tv_nsec / 1000;
    if (getenv("STANDIN_NS")) header->timestamp_ns = now.tv_sec * 1000000000ull + now.tv_nsec;
    header->captured = fields[2] < ring->limit ? fields[2] : ring->limit;
    header->length = fields[3];
    *buffer = packet;
    ring->counted.received++;
    return 1;
  }
  return getenv("STANDIN_END") ? -2 : 0;
}

int pfring_poll(struct ring *ring, unsigned milliseconds) {
  (void)ring;
  if (getenv("STANDIN_POLL")) return number("STANDIN_POLL");
  usleep(milliseconds * 1000);
  return 0;
}

int pfring_stats(struct ring *ring, struct statistics *statistics) {
  *statistics = ring->counted;
  return 0;
}

void pfring_close(struct ring *ring) {
  say("%s %ld %ld\n", "close", ring->counted.received, ring->counted.dropped);
  free(ring->file);
  free(ring);
}

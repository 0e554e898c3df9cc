package io.weir.jobs.ledger;

import io.weir.jobs.message.RangeSet;
import io.weir.jobs.serde.Compressed;
import io.weir.jobs.serde.FieldSerializer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.TypeSerializerSnapshot;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;

/**
 * Intervals of a worker that only a late message may still change: some dozen octets each, where an
 * object takes a kilobyte. They are unpacked all at once.
 */
final class PackedIntervals {
  private static final int LEVEL = 3;
  private static final FieldSerializer<Interval> INTERVALS = new FieldSerializer<>(Interval.class);
  private static final byte[] FORMAT = format();

  /** Octets before an interval: start (ms), seconds, length of the interval's octets. */
  private static final int HEAD = Long.BYTES + 2 * Integer.BYTES;

  /** An interval and its start. */
  record Entry(long start, Interval interval) {}

  /**
   * Format of an interval, then the intervals in the order in which they were added; compressed.
   */
  private byte[] octets = Compressed.NONE;

  private int size;
  private final RangeSet seconds = new RangeSet(WorkerLedger.MAX_RANGES);

  private static byte[] format() {
    DataOutputSerializer out = new DataOutputSerializer(4096);
    try {
      TypeSerializerSnapshot.writeVersionedSnapshot(out, INTERVALS.snapshotConfiguration());
    } catch (IOException e) {
      throw new UncheckedIOException(e); // nothing but memory is written to
    }
    return out.getCopyOfBuffer();
  }

  boolean contains(long start) {
    return seconds.contains(start / 1000);
  }

  int size() {
    return size;
  }

  /** Removes all intervals, and returns them. */
  List<Entry> takeAll() {
    List<Entry> entries = new ArrayList<>();
    if (size > 0) {
      DataInputDeserializer in = new DataInputDeserializer(Compressed.octets(octets));
      try {
        TypeSerializer<Interval> serializer =
            TypeSerializerSnapshot.<Interval>readVersionedSnapshot(
                    in, Interval.class.getClassLoader())
                .restoreSerializer();
        for (int left = size; left > 0; left--) {
          long start = in.readLong();
          in.skipBytesToRead(2 * Integer.BYTES);
          entries.add(new Entry(start, serializer.deserialize(in)));
        }
      } catch (IOException e) {
        throw new UncheckedIOException(e); // nothing but memory is read
      }
    }
    clear();
    return entries;
  }

  private void clear() {
    octets = Compressed.NONE;
    size = 0;
    seconds.removeBelow(Long.MAX_VALUE);
  }

  /** Adds intervals, and drops the first ones beyond {@code most}: adds their seconds to a set. */
  void add(List<Entry> entries, int most, RangeSet dropped) {
    byte[] before = size == 0 ? FORMAT : Compressed.octets(octets);
    List<Entry> more = entries;
    if (!Arrays.equals(
        before, 0, Math.min(before.length, FORMAT.length), FORMAT, 0, FORMAT.length)) {
      more = takeAll(); // of an earlier version of the jobs
      more.addAll(entries);
      before = FORMAT;
    }
    int kept = size;
    int surplus = kept + more.size() - most;
    clear();
    DataOutputSerializer out = new DataOutputSerializer(before.length + 4096);
    try {
      out.write(FORMAT);
      ByteBuffer in = ByteBuffer.wrap(before);
      in.position(FORMAT.length);
      for (int i = 0; i < kept; i++) {
        int at = in.position();
        long from = in.getLong() / 1000;
        long to = from + in.getInt() - 1;
        int octetsOfOne = in.getInt();
        in.position(in.position() + octetsOfOne);
        if (i < surplus) {
          dropped.addRange(from, to);
        } else {
          out.write(before, at, HEAD + octetsOfOne);
          count(from, to);
        }
      }
      for (Entry entry : more) {
        write(entry, out);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e); // nothing but memory is written to
    }
    octets = Compressed.of(out.getCopyOfBuffer(), LEVEL);
  }

  private void write(Entry entry, DataOutputSerializer out) throws IOException {
    DataOutputSerializer one = new DataOutputSerializer(512);
    INTERVALS.serialize(entry.interval, one);
    int lasts = entry.interval.length / 1000;
    out.writeLong(entry.start);
    out.writeInt(lasts);
    out.writeInt(one.length());
    out.write(one.getSharedBuffer(), 0, one.length());
    count(entry.start / 1000, entry.start / 1000 + lasts - 1);
  }

  private void count(long from, long to) {
    size++;
    seconds.addRange(from, to);
  }
}

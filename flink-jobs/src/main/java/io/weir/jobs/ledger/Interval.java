package io.weir.jobs.ledger;

import io.weir.jobs.message.Reports;
import io.weir.jobs.serde.Longs;
import io.weir.proto.ClosingRecord;
import io.weir.proto.Conservation;
import java.io.IOException;
import java.util.Map;
import java.util.TreeMap;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;

/** What is known of one interval of one worker. */
final class Interval {
  /** What one run of the agent did in the interval. */
  static final class Part {
    long batches;
    long records;
    long packets;
    long octets;
    long repeated;

    /** What batches brought beside flow records. */
    final Reports reports = new Reports();

    /** Sequence of the highest batch, -1 where none came. */
    long highest = -1;

    /**
     * Where it came: without its sums over the epoch and the interfaces, which the {@link Run}
     * keeps.
     */
    ClosingRecord closing;

    /** Where the closing record did not come and later ones tell what it must have said. */
    Conservation inferred;

    /** Batches that did not come, and the first of their numbers. */
    long missing;

    long[] missingSequences = {};

    /** By the interfaces' own counters. */
    long interfacePackets;

    long interfaceOctets;

    /** Whether the agent's run is known to have gone on, or ended, without the closing record. */
    boolean abandoned;

    /** What closing records of later intervals say that came for this one after it was closed. */
    long lateBatches;

    long lateRecords;
    long latePackets;
    long lateOctets;

    /** The run began after the interval, which therefore gets no closing record of its own. */
    boolean beforeRun;

    /** Whether a closing record is missing or still to come. */
    boolean unclosed() {
      return closing == null && !beforeRun;
    }
  }

  final int length;
  final TreeMap<Long, Part> parts = new TreeMap<>();

  /** Of the last row written; 0 where none was. */
  long version;

  /** Something has changed since. */
  boolean changed;

  /** When something last came, ms from 1970. */
  long touched;

  Interval(int length) {
    this.length = length;
  }

  Part part(long epoch) {
    return parts.computeIfAbsent(epoch, key -> new Part());
  }

  /** Whether a run of the agent is in the interval and may yet close it. */
  boolean running() {
    return parts.values().stream().anyMatch(part -> part.unclosed() && !part.abandoned);
  }

  LedgerState state() {
    boolean came = false;
    boolean unclosed = false;
    boolean missing = false;
    for (Part part : parts.values()) {
      came |= part.closing != null || part.batches > 0 || part.lateBatches > 0;
      unclosed |= part.unclosed();
      missing |= part.missing > 0;
    }
    if (!came) {
      return LedgerState.MISSING;
    }
    return unclosed
        ? LedgerState.CLOSING_MISSING
        : missing ? LedgerState.BATCHES_MISSING : LedgerState.CLOSED;
  }

  void write(DataOutputView out) throws IOException {
    out.writeInt(length);
    out.writeLong(version);
    out.writeBoolean(changed);
    out.writeLong(touched);
    out.writeInt(parts.size());
    for (Map.Entry<Long, Part> entry : parts.entrySet()) {
      Part part = entry.getValue();
      out.writeLong(entry.getKey());
      out.writeLong(part.batches);
      out.writeLong(part.records);
      out.writeLong(part.packets);
      out.writeLong(part.octets);
      out.writeLong(part.repeated);
      Bytes.write(part.reports.toBytes(), out);
      out.writeLong(part.highest);
      Bytes.write(part.closing == null ? null : part.closing.toByteArray(), out);
      Bytes.write(part.inferred == null ? null : part.inferred.toByteArray(), out);
      out.writeLong(part.missing);
      Longs.write(part.missingSequences, part.missingSequences.length, out);
      out.writeLong(part.interfacePackets);
      out.writeLong(part.interfaceOctets);
      out.writeBoolean(part.abandoned);
      out.writeLong(part.lateBatches);
      out.writeLong(part.lateRecords);
      out.writeLong(part.latePackets);
      out.writeLong(part.lateOctets);
      out.writeBoolean(part.beforeRun);
    }
  }

  static Interval read(DataInputView in) throws IOException {
    Interval interval = new Interval(in.readInt());
    interval.version = in.readLong();
    interval.changed = in.readBoolean();
    interval.touched = in.readLong();
    for (int left = in.readInt(); left > 0; left--) {
      Part part = interval.part(in.readLong());
      part.batches = in.readLong();
      part.records = in.readLong();
      part.packets = in.readLong();
      part.octets = in.readLong();
      part.repeated = in.readLong();
      part.reports.add(Bytes.read(in));
      part.highest = in.readLong();
      byte[] closing = Bytes.read(in);
      part.closing = closing == null ? null : ClosingRecord.parseFrom(closing);
      byte[] inferred = Bytes.read(in);
      part.inferred = inferred == null ? null : Conservation.parseFrom(inferred);
      part.missing = in.readLong();
      part.missingSequences = Longs.read(in);
      part.interfacePackets = in.readLong();
      part.interfaceOctets = in.readLong();
      part.abandoned = in.readBoolean();
      part.lateBatches = in.readLong();
      part.lateRecords = in.readLong();
      part.latePackets = in.readLong();
      part.lateOctets = in.readLong();
      part.beforeRun = in.readBoolean();
    }
    return interval;
  }
}

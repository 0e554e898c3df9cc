package io.weir.jobs.detect;

import io.weir.jobs.message.Addresses;
import io.weir.jobs.message.Enrichment;
import io.weir.proto.Flow;
import io.weir.proto.FlowMessage;
import io.weir.proto.RecordKind;

/** The fields of one record that detectors read. One object serves all records. */
final class Look {
  static final int TCP = 6;
  static final int UDP = 17;

  /** What a flow's first packets must be older than at the interval's end for it to be judged. */
  private static final long MOST_EDGE_MS = 1_000;

  Flow flow;
  long srcHigh;
  long srcLow;
  long dstHigh;
  long dstLow;
  int protocol;

  /** 0 for a flow; what an overflow record names: 1 source and port, 2 destination and port. */
  int overflowKey;

  /** Whether only one direction is seen, as the probe is declared. */
  boolean oneWay;

  int dstCustomer;

  /** Whether the source is at the probe's site or inside the nation. */
  boolean srcInside;

  private long end;
  private long edge;

  /** Begins the records of a batch. */
  void batch(FlowMessage message, Enrichment known) {
    end = message.getIntervalMs();
    edge = Math.min(MOST_EDGE_MS, end / 5);
    oneWay = known.oneWay;
  }

  /** Looks at a record. */
  void at(Flow record, Enrichment known, int number) {
    flow = record;
    srcHigh = Addresses.high(record.getSrcAddr());
    srcLow = Addresses.low(record.getSrcAddr());
    dstHigh = Addresses.high(record.getDstAddr());
    dstLow = Addresses.low(record.getDstAddr());
    protocol = record.getProtocol();
    overflowKey = 0;
    if (record.getRecordKind() == RecordKind.RECORD_KIND_OVERFLOW) {
      int said = record.getOverflow().getKeyValue();
      overflowKey = said == 1 || said == 2 ? said : 3;
    }
    dstCustomer = known.dstCustomer[number];
    srcInside = (known.ends[number] & (Enrichment.SRC_AT_SITE | Enrichment.SRC_NATIONAL)) != 0;
  }

  /** Whether an answer to its last packet would have come in this interval. */
  boolean isSettled() {
    return flow.getFirstSeenOffsetMs() + flow.getLastSeenOffsetMs() <= end - edge;
  }

  /**
   * Whether the initiator sent more than SYNs and resets: it completed the handshake. Of an
   * overflow record, which has many flows, this says nothing.
   */
  boolean isHandshakeComplete() {
    return flow.getFwdPackets() > flow.getFwdTcpSyn() + flow.getFwdTcpRst();
  }
}

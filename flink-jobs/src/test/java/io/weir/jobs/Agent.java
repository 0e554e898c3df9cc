package io.weir.jobs;

import com.google.protobuf.ByteString;
import io.weir.proto.ClosingRecord;
import io.weir.proto.Conservation;
import io.weir.proto.Flow;
import io.weir.proto.FlowBatch;
import io.weir.proto.FlowMessage;
import io.weir.proto.Volume;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** A worker of an agent with made-up records, but correct sequences, closing records and sums. */
public final class Agent {
  /** The fields that all its messages have in common. */
  private final FlowMessage head;

  private final int workers;
  private final Random random;
  private long sequence;
  private long totalPackets;
  private long totalOctets;
  private boolean first = true;

  /** Sources, destinations and ports are chosen at random from about this many flows. */
  private int distinct = 10_000;

  public Agent(String probe, int worker, int workers, long epoch, int intervalMs) {
    head =
        FlowMessage.newBuilder()
            .setMajor(1)
            .setProbe(probe)
            .setWorker(worker)
            .setEpoch(epoch)
            .setIntervalMs(intervalMs)
            .build();
    this.workers = workers;
    random = new Random(epoch * 31 + worker);
  }

  public Agent distinct(int flows) {
    distinct = flows;
    return this;
  }

  /** The messages of one interval: batches of {@code perBatch} records, then the closing record. */
  public List<FlowMessage> interval(long start, int records, int perBatch, boolean last) {
    List<FlowMessage> messages = new ArrayList<>();
    long firstSequence = sequence;
    long packets = 0;
    long octets = 0;
    for (int left = records; left > 0; left -= perBatch) {
      FlowBatch.Builder batch = FlowBatch.newBuilder();
      for (int i = 0; i < Math.min(left, perBatch); i++) {
        Flow flow = flow();
        packets += flow.getFwdPackets() + flow.getRevPackets();
        octets += flow.getFwdOctets() + flow.getRevOctets();
        batch.addFlows(flow);
      }
      messages.add(header(start).setBatch(batch).build());
    }
    totalPackets += packets;
    totalOctets += octets;
    ClosingRecord closing =
        ClosingRecord.newBuilder()
            .setFirstSequence(firstSequence)
            .setBatches((int) (sequence - firstSequence))
            .setRecords(records)
            .setInterval(sums(packets, octets))
            .setEpochTotal(sums(totalPackets, totalOctets))
            .setWorkers(workers)
            .setFirst(first)
            .setLast(last)
            .setAgentVersion("test")
            .setSource("af_packet:test0")
            .build();
    first = false;
    messages.add(header(start).setClosing(closing).build());
    return messages;
  }

  public long packets() {
    return totalPackets;
  }

  public long octets() {
    return totalOctets;
  }

  private FlowMessage.Builder header(long start) {
    return head.toBuilder().setSequence(sequence++).setIntervalStartMs(start);
  }

  private static Conservation sums(long packets, long octets) {
    Volume volume = Volume.newBuilder().setPackets(packets).setOctets(octets).build();
    return Conservation.newBuilder()
        .setOnInterface(volume)
        .setCaptured(volume)
        .setInFlowRecords(volume)
        .build();
  }

  private Flow flow() {
    int which = (int) Math.min(distinct - 1, Math.abs(random.nextGaussian()) * distinct / 3);
    int hash = which * 0x9e3779b1;
    long packets = 1L + random.nextInt(20);
    long back = random.nextInt(20);
    Flow.Builder flow =
        Flow.newBuilder()
            .setSrcAddr(address(10, hash))
            .setDstAddr(address(172, Integer.reverse(hash) ^ which))
            .setSrcPort(1024 + (hash >>> 17))
            .setDstPort(which % 3 == 0 ? 443 : which % 1000)
            .setProtocol(which % 4 == 0 ? 17 : 6)
            .setIpVersion(4)
            .setFwdPackets(packets)
            .setFwdOctets(packets * (40 + random.nextInt(1400)))
            .setRevPackets(back)
            .setRevOctets(back * (40 + random.nextInt(1400)))
            .setFirstSeenOffsetMs(random.nextInt(head.getIntervalMs()))
            .setLastSeenOffsetMs(random.nextInt(2000))
            .setFlowAgeMs(which % 2 == 0 ? 0 : random.nextInt(60_000));
    if (which % 4 != 0) {
      flow.setFwdTcpSyn(1).setRevTcpSynack(1).setTcpHandshakeRttUs(random.nextInt(90_000));
      if (which % 5 == 0) {
        flow.setFwdTcpFin(1).setRevTcpFin(1).setServerName("host" + which % 500 + ".example");
      }
    }
    return flow.build();
  }

  private static ByteString address(int first, int rest) {
    byte[] bytes = {(byte) first, (byte) (rest >>> 16), (byte) (rest >>> 8), (byte) rest};
    return ByteString.copyFrom(bytes);
  }
}

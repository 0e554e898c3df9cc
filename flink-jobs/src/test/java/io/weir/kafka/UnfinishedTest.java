package io.weir.kafka;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.memory.MemoryPool;
import org.apache.kafka.common.network.InvalidReceiveException;
import org.junit.jupiter.api.Test;

/** However many addresses hold what they may, the next one can send a message. */
class UnfinishedTest {
  private static final int PORT = 9093;
  private static final int ALL = 200_000_000;

  /** As Kafka's, without buffers. */
  private static final class Pool implements MemoryPool {
    private long free = ALL;

    @Override
    public ByteBuffer tryAllocate(int octets) {
      free -= octets;
      return null;
    }

    @Override
    public void release(ByteBuffer buffer) {}

    @Override
    public long size() {
      return ALL;
    }

    @Override
    public long availableMemory() {
      return free;
    }

    @Override
    public boolean isOutOfMemory() {
      return free <= 0;
    }
  }

  private final Pool pool = new Pool();
  private final Unfinished unfinished = new Unfinished(PORT);

  private String begin(String address, int octets) {
    String sender =
        unfinished.begin("127.0.0.1:" + PORT + "-" + address + ":40000-0-7", octets, pool);
    pool.tryAllocate(octets);
    return sender;
  }

  private boolean begins(String address, int octets) {
    try {
      begin(address, octets);
      return true;
    } catch (InvalidReceiveException e) {
      return false;
    }
  }

  /** Requests, the larger first, of twenty connections from each address. */
  private void hold(int addresses) {
    for (int address = 0; address < addresses; address++) {
      int connections = 0;
      for (int octets = 10 << 20; octets > 1000 && connections < 20; octets /= 2) {
        while (connections < 20 && begins("192.0.2." + address, octets)) {
          connections++;
        }
      }
    }
  }

  @Test
  void manyAddressesLeaveRoomForTheNext() {
    hold(5);
    assertThat(begins("198.51.100.1", 4_200_000)).isTrue();
    assertThat(pool.free).isGreaterThan(ALL / 2);
    hold(30);
    assertThat(begins("198.51.100.2", 1_000_000)).isTrue();
  }

  @Test
  void oneAddressHoldsASixteenth() {
    hold(1);
    assertThat(ALL - pool.free).isBetween(ALL / 20L, ALL / 16L);
    assertThatThrownBy(() -> begin("192.0.2.0", 1 << 20)).hasMessageContaining("192.0.2.0");
  }

  @Test
  void whatIsFinishedCountsNoMore() {
    List<String> senders = new ArrayList<>();
    for (int i = 0; i < 1000; i++) {
      String sender = begin("192.0.2.1", 10_000_000);
      senders.add(sender);
      unfinished.end(sender, 10_000_000);
      pool.free += 10_000_000;
    }
    assertThat(senders).containsOnly("192.0.2.1");
  }

  @Test
  void aNetworkOfIpv6CountsAsOneAddress() {
    assertThat(begin("2001:db8:1:2:0:0:0:1", 1)).isEqualTo("2001:db8:1:2");
    assertThat(begin("2001:db8:1:2:3:4:5:6%eth0", 1)).isEqualTo("2001:db8:1:2");
    assertThat(begin("2001:db8:1:3:0:0:0:1", 1)).isEqualTo("2001:db8:1:3");
  }

  @Test
  void otherPortsAreNotBounded() {
    String own = "127.0.0.1:9092-127.0.0.1:40000-0-7";
    for (int i = 0; i < 100; i++) {
      assertThat(unfinished.begin(own, 10 << 20, pool)).isNull();
    }
    assertThat(new Unfinished(0).begin("127.0.0.1:9093-192.0.2.1:1-0-7", 1 << 30, pool)).isNull();
  }
}

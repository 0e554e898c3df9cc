package io.weir.jobs.enrich;

import com.google.protobuf.ByteString;
import io.weir.jobs.message.Enrichment;
import io.weir.proto.Flow;
import io.weir.proto.FlowBatch;
import io.weir.proto.FlowMessage;
import io.weir.proto.Prefix;
import io.weir.proto.Probe;
import java.lang.management.ManagementFactory;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/**
 * Measures the cost of enrichment: {@code EnrichSpeed [PREFIXES [NETWORKS [SECONDS]]]}. Prints the
 * time to build the tables, and the nanoseconds per record for all its look-ups: of both addresses
 * prefix, autonomous system and country, and the service.
 */
public final class EnrichSpeed {
  private static final Random RANDOM = new Random(1);

  private EnrichSpeed() {}

  public static void main(String[] a) throws Exception {
    int prefixes = a.length > 0 ? Integer.parseInt(a[0]) : 100_000;
    int networks = a.length > 1 ? Integer.parseInt(a[1]) : 500_000;
    int seconds = a.length > 2 ? Integer.parseInt(a[2]) : 5;
    Declarations declarations = new Declarations();
    byte[] probe =
        Probe.newBuilder().setMajor(1).setName("p").setSite("site 1").build().toByteArray();
    declarations.apply(Declarations.PROBES, "p", probe);
    for (int i = 0; i < prefixes; i++) {
      String text =
          i % 4 == 0
              ? InetAddress.getByAddress(address(16)).getHostAddress() + "/" + (32 + i % 33)
              : InetAddress.getByAddress(address(4)).getHostAddress() + "/" + (12 + i % 17);
      Prefix prefix =
          Prefix.newBuilder()
              .setMajor(1)
              .setPrefix(text)
              .setId(i + 1)
              .setCustomerId(1 + i % 5000)
              .setSite("site " + i % 40)
              .setNational(i % 3 == 0)
              .build();
      declarations.apply(Declarations.PREFIXES, text, prefix.toByteArray());
    }
    for (int i = 0; i < 5; i++) {
      long began = nanos();
      var unused = declarations.prefixes();
      System.out.printf("%d prefixes built in %d ms%n", prefixes, millis(began));
    }
    long began = nanos();
    AddressMap systems = networks(networks);
    AddressMap countries = networks(networks / 2);
    System.out.printf(
        "%d and %d ranges built in %d ms%n", systems.ranges(), countries.ranges(), millis(began));
    Known known = Known.NOTHING.withSystems(systems, Known.Names.NONE).withCountries(countries);
    for (int i = 0; i < 3; i++) {
      began = nanos();
      known = known.with(declarations.prefixes(), declarations.probes(), declarations.rules());
      System.out.printf("all built anew after a change of prefixes in %d ms%n", millis(began));
    }
    for (int octets : new int[] {4, 16}) {
      List<FlowMessage> batches = new ArrayList<>();
      for (int i = 0; i < 200; i++) {
        batches.add(batch(octets));
      }
      for (int round = 0; round < 3; round++) {
        began = nanos();
        long records = 0;
        long sum = 0;
        for (int i = 0; i % 10 != 0 || millis(began) < 1000L * seconds / 6; i++) {
          Enrichment enrichment = Enrich.enrichment(batches.get(i % batches.size()), known);
          sum += enrichment.srcAs[0] + enrichment.service[1];
          records += enrichment.ends.length;
        }
        System.out.printf(
            "IPv%d: %.0f ns a record (%d)%n",
            octets == 4 ? 4 : 6, (double) (nanos() - began) / records, sum & 1);
      }
    }
  }

  private static long millis(long began) {
    return (nanos() - began) / 1_000_000;
  }

  /** CPU time of this thread, which excludes other work on the machine. */
  private static long nanos() {
    return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
  }

  /** Networks side by side, as in a table of the Internet's routes: /24 and /48. */
  private static AddressMap networks(int count) throws Exception {
    AddressMap.Builder builder = new AddressMap.Builder();
    for (int i = 0; i < count; i++) {
      int octets = i % 3 == 0 ? 16 : 4;
      builder.add(InetAddress.getByAddress(address(octets)), octets == 4 ? 24 : 40, 1 + i % 80_000);
    }
    return builder.build();
  }

  private static byte[] address(int octets) {
    byte[] address = new byte[octets];
    RANDOM.nextBytes(address);
    if (octets == 16) {
      address[0] = (byte) (0x20 + RANDOM.nextInt(16));
      address[1] = (byte) RANDOM.nextInt(32);
    } else {
      address[0] = (byte) (1 + RANDOM.nextInt(223));
    }
    return address;
  }

  private static FlowMessage batch(int octets) {
    FlowBatch.Builder batch = FlowBatch.newBuilder();
    for (int i = 0; i < 500; i++) {
      batch.addFlows(
          Flow.newBuilder()
              .setSrcAddr(ByteString.copyFrom(address(octets)))
              .setDstAddr(ByteString.copyFrom(address(octets)))
              .setProtocol(6)
              .setDstPort(i % 3 == 0 ? 443 : 1024 + i));
    }
    return FlowMessage.newBuilder().setProbe("p").setBatch(batch).build();
  }
}

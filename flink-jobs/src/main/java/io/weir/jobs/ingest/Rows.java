package io.weir.jobs.ingest;

import com.google.protobuf.ByteString;
import io.weir.jobs.message.Addresses;
import io.weir.jobs.sink.BlockBuilder;

/** Helpers of the generated code for records. */
final class Rows {
  private Rows() {}

  /** Sets an address of 4 or 16 octets in the last row; empty is ::. */
  static void address(BlockBuilder row, int column, ByteString address) {
    row.setAddress(column, Addresses.high(address), Addresses.low(address));
  }
}

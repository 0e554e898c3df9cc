package io.weir.jobs.source;

import com.google.protobuf.CodedInputStream;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor.JavaType;
import com.google.protobuf.WireFormat;
import java.io.IOException;

/** Counts what a message would be parsed into, without parsing it. */
final class Parts {
  /**
   * Messages in a message, and fields that the schema does not know, that the jobs parse. Agents
   * send 500 flows in a batch. An empty flow has two octets in a message and some 600 in memory.
   */
  static final int MAX = 50_000;

  private final CodedInputStream in;
  private int count;

  private Parts(CodedInputStream in) {
    this.in = in;
  }

  /** Whether there are more than {@link #MAX}. Throws IOException if the message is malformed. */
  static boolean tooMany(Descriptor type, byte[] message) throws IOException {
    if (message.length < 2 * MAX) {
      return false;
    }
    Parts parts = new Parts(CodedInputStream.newInstance(message));
    parts.add(type);
    return parts.count > MAX;
  }

  private void add(Descriptor type) throws IOException {
    for (int tag = in.readTag(); tag != 0 && count <= MAX; tag = in.readTag()) {
      FieldDescriptor field = type.findFieldByNumber(WireFormat.getTagFieldNumber(tag));
      boolean part = field != null && field.getJavaType() == JavaType.MESSAGE;
      if (part || field == null) {
        count++;
      }
      if (part && WireFormat.getTagWireType(tag) == WireFormat.WIRETYPE_LENGTH_DELIMITED) {
        int end = in.pushLimit(in.readRawVarint32());
        add(field.getMessageType());
        if (count > MAX) {
          return;
        }
        in.popLimit(end);
      } else {
        in.skipField(tag);
      }
    }
  }
}

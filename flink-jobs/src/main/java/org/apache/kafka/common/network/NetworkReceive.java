package org.apache.kafka.common.network;

import io.weir.kafka.Unfinished;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.ScatteringByteChannel;
import org.apache.kafka.common.memory.MemoryPool;

/**
 * Takes the place of Kafka's class of this name, as {@link
 * org.apache.kafka.common.compress.Compression} does: a request of four octets that say its length,
 * and the rest. {@link Unfinished} must let it begin.
 */
public class NetworkReceive implements Receive {
  public static final String UNKNOWN_SOURCE = "";
  public static final int UNLIMITED = -1;

  private final String source;
  private final ByteBuffer size = ByteBuffer.allocate(4);
  private final int maxSize;
  private final MemoryPool memoryPool;
  private int announced = -1;
  private ByteBuffer buffer;

  /** Whose share the request counts in; null for nobody's. */
  private String sender;

  public NetworkReceive(String source, ByteBuffer buffer) {
    this(UNLIMITED, source);
    this.buffer = buffer;
  }

  public NetworkReceive(String source) {
    this(UNLIMITED, source);
  }

  public NetworkReceive(int maxSize, String source) {
    this(maxSize, source, MemoryPool.NONE);
  }

  public NetworkReceive(int maxSize, String source, MemoryPool memoryPool) {
    this.source = source;
    this.maxSize = maxSize;
    this.memoryPool = memoryPool;
  }

  public NetworkReceive() {
    this(UNKNOWN_SOURCE);
  }

  @Override
  public String source() {
    return source;
  }

  @Override
  public boolean complete() {
    return !size.hasRemaining() && buffer != null && !buffer.hasRemaining();
  }

  @Override
  public long readFrom(ScatteringByteChannel channel) throws IOException {
    int read = 0;
    if (size.hasRemaining()) {
      read += some(channel, size);
      if (!size.hasRemaining()) {
        begin();
      }
    }
    if (buffer == null && announced != -1) {
      buffer = memoryPool.tryAllocate(announced);
    }
    if (buffer != null) {
      read += some(channel, buffer);
      if (!buffer.hasRemaining()) {
        end();
      }
    }
    return read;
  }

  private static int some(ScatteringByteChannel channel, ByteBuffer into) throws IOException {
    int read = channel.read(into);
    if (read < 0) {
      throw new EOFException();
    }
    return read;
  }

  private void begin() {
    size.rewind();
    int length = size.getInt();
    if (length < 0 || (maxSize != UNLIMITED && length > maxSize)) {
      throw new InvalidReceiveException(
          "a request of " + length + " octets, of at most " + maxSize);
    }
    if (length == 0) {
      buffer = ByteBuffer.allocate(0);
    } else {
      sender = Unfinished.ofProbes().begin(source, length, memoryPool);
    }
    announced = length;
  }

  private void end() {
    if (sender != null) {
      Unfinished.ofProbes().end(sender, announced);
      sender = null;
    }
  }

  @Override
  public boolean requiredMemoryAmountKnown() {
    return announced != -1;
  }

  @Override
  public boolean memoryAllocated() {
    return buffer != null;
  }

  @Override
  public void close() throws IOException {
    end();
    if (buffer != null && announced != 0) {
      memoryPool.release(buffer);
      buffer = null;
    }
  }

  public ByteBuffer payload() {
    return buffer;
  }

  public int bytesRead() {
    return size.position() + (buffer == null ? 0 : buffer.position());
  }

  public int size() {
    return payload().limit() + size.limit();
  }
}

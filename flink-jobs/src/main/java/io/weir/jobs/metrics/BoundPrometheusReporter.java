package io.weir.jobs.metrics;

import io.prometheus.client.CollectorRegistry;
import io.prometheus.client.exporter.HTTPServer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Field;
import java.net.InetSocketAddress;
import java.util.Properties;
import org.apache.flink.metrics.MetricConfig;
import org.apache.flink.metrics.prometheus.AbstractPrometheusReporter;
import org.apache.flink.metrics.reporter.MetricReporter;
import org.apache.flink.metrics.reporter.MetricReporterFactory;

/**
 * Flink's Prometheus reporter on one address: Flink's own reporter listens on all addresses. Its
 * keys are {@code host} and {@code port}; only for {@code java -jar}, because a cluster has its own
 * reporters.
 */
public final class BoundPrometheusReporter extends AbstractPrometheusReporter {
  private HTTPServer server;

  @Override
  public void open(MetricConfig config) {
    super.open(config);
    String host = config.getString("host", "127.0.0.1");
    int port = config.getInteger("port", 9249);
    try {
      server = new HTTPServer(new InetSocketAddress(host, port), registry(), true);
    } catch (IOException e) {
      throw new UncheckedIOException("metrics cannot listen on " + host + ":" + port, e);
    }
  }

  /** The reporter's registry, which Flink exposes only to its own package. */
  private CollectorRegistry registry() {
    try {
      Field field = AbstractPrometheusReporter.class.getDeclaredField("registry");
      field.setAccessible(true);
      return (CollectorRegistry) field.get(this);
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("this version of Flink keeps its metrics elsewhere", e);
    }
  }

  @Override
  public void close() {
    if (server != null) {
      server.stop();
    }
    super.close();
  }

  /** Makes the reporter. */
  public static final class Factory implements MetricReporterFactory {
    @Override
    public MetricReporter createMetricReporter(Properties properties) {
      return new BoundPrometheusReporter();
    }
  }
}

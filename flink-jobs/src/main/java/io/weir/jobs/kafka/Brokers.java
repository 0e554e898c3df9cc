package io.weir.jobs.kafka;

import java.io.IOException;
import java.io.Reader;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import org.apache.kafka.common.config.SaslConfigs;
import org.apache.kafka.common.config.internals.BrokerSecurityConfigs;
import org.apache.kafka.common.config.provider.FileConfigProvider;

/**
 * Kafka's addresses, and the file of the properties by which clients log in there.
 *
 * <p>The job graph holds each property of that file as a reference to it ({@link
 * FileConfigProvider}), so that passwords are in no state and on no web page; every client reads
 * the file when it connects.
 *
 * @param addresses host:port, separated by commas
 * @param file path of the properties, empty for none
 */
public record Brokers(String addresses, String file) implements Serializable {

  private static final String TOKENS = SaslConfigs.SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL;

  /**
   * The properties of a client, which may then fetch tokens where the file says. Throws
   * UncheckedIOException if the file cannot be read.
   */
  public Properties properties() {
    Properties found = new Properties();
    if (!file.isEmpty()) {
      found.setProperty("config.providers", "file");
      found.setProperty("config.providers.file.class", FileConfigProvider.class.getName());
      found.setProperty("config.providers.file.param.allowed.paths", file);
      Properties read = read();
      allow(read.getProperty(TOKENS));
      for (String name : read.stringPropertyNames()) {
        found.setProperty(name, "${file:" + file + ":" + name + "}");
      }
    }
    found.setProperty("bootstrap.servers", addresses);
    return found;
  }

  /** Why clients cannot use the file, for users; empty if they can. */
  public String complaint() {
    if (file.matches(".*[:{}].*")) {
      return "its path must hold none of : { }";
    }
    try {
      properties();
    } catch (UncheckedIOException e) {
      return "it cannot be read: " + e.getCause().getMessage();
    }
    return "";
  }

  private Properties read() {
    Properties read = new Properties();
    try (Reader reader = Files.newBufferedReader(Path.of(file))) {
      read.load(reader);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return read;
  }

  /**
   * Kafka's clients ask for a token only where a system property permits it, lest whoever writes
   * their properties choose the place. Here the operator writes both.
   */
  private static void allow(String url) {
    String key = BrokerSecurityConfigs.ALLOWED_SASL_OAUTHBEARER_URLS_CONFIG;
    if (url != null && System.getProperty(key) == null) {
      System.setProperty(key, url);
    }
  }
}

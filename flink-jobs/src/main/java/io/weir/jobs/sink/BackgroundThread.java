package io.weir.jobs.sink;

import java.util.concurrent.RejectedExecutionException;
import org.apache.flink.util.function.SupplierWithException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A thread of its own. */
final class BackgroundThread implements Background {
  private static final Logger LOG = LoggerFactory.getLogger(BackgroundThread.class);
  private static final long END_MS = 5_000;

  private Thread thread;
  private boolean woken;

  @Override
  public long now() {
    return System.currentTimeMillis();
  }

  @Override
  public void begin(String name, SupplierWithException<Long, Exception> step) {
    ClassLoader loader = Thread.currentThread().getContextClassLoader();
    thread =
        new Thread(
            () -> {
              try {
                while (true) {
                  await(step.get());
                }
              } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
              } catch (RejectedExecutionException e) {
                LOG.debug("the task has ended", e);
              } catch (Exception e) {
                LOG.error("inserts have ended", e); // a step takes care of what may fail in it
              }
            },
            name);
    thread.setDaemon(true);
    thread.setContextClassLoader(loader);
    thread.start();
  }

  private synchronized void await(long ms) throws InterruptedException {
    long until = now() + ms;
    while (!woken && now() < until) {
      wait(Math.max(1, until - now()));
    }
    woken = false;
  }

  @Override
  public synchronized void wake() {
    woken = true;
    notifyAll();
  }

  @Override
  public void end() throws InterruptedException {
    if (thread != null) {
      thread.interrupt();
      thread.join(END_MS);
    }
  }
}

import java.nio.charset.StandardCharsets;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** A producer that sends numbers at a steady rate, each until it is acknowledged, and a consumer that ticks them off. */
final class Soak {
    private static final int PERIOD = 10; // milliseconds
    private static final int AGAIN_AFTER = 500;
    private static final int MOST_IN_FLIGHT = 2000; // while the broker is away nothing new is sent; it is made up for later
    private static Soak running;

    private final ScheduledExecutorService timer = Executors.newScheduledThreadPool(2);
    private final DefaultMQProducer producer;
    private final DefaultMQPushConsumer consumer;
    private final String topic;
    private final BitSet acknowledged = new BitSet();
    private final BitSet sentAgain = new BitSet();
    private final BitSet received = new BitSet();
    private boolean sending = true;
    private int sent;
    private int due;
    private int inFlight;
    private int repeats;
    private int unexplained;

    private Soak(Call call) throws Exception {
        topic = call.text("topic");
        producer = call.configure(new DefaultMQProducer("soak-producers"));
        producer.setRetryTimesWhenSendAsyncFailed(0); // this class counts attempts itself
        producer.setSendMsgTimeout(10_000);
        producer.start();
        consumer = call.configure(new DefaultMQPushConsumer("soak-consumers"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) this::consume);
        consumer.start();
        int each = call.number("rate", 2000) * PERIOD / 1000;
        timer.scheduleAtFixedRate(() -> sendSome(each), PERIOD, PERIOD, TimeUnit.MILLISECONDS);
    }

    static Object start(Call call) throws Exception {
        running = new Soak(call);
        return null;
    }

    static Object progress(Call call) {
        return running.figures();
    }

    /** Send nothing new, wait until everything is acknowledged and received, and tell how it went. */
    static Object finish(Call call) throws Exception {
        running.stopSending();
        long end = System.currentTimeMillis() + call.number("milliseconds", 60_000);
        while (!running.isComplete() && System.currentTimeMillis() < end) {
            Thread.sleep(100);
        }
        Thread.sleep(2000); // for repeats that are still on their way
        running.timer.shutdownNow();
        running.consumer.shutdown();
        running.producer.shutdown();
        return running.figures();
    }

    private synchronized void stopSending() {
        sending = false;
    }

    private void sendSome(int count) {
        addDue(count);
        for (int number = next(); number >= 0; number = next()) {
            send(number);
        }
    }

    private synchronized void addDue(int count) {
        due += count;
    }

    /** Return the next number to send, -1 if none may be sent now. */
    private synchronized int next() {
        boolean mayBeSent = sending && sent < due && inFlight < MOST_IN_FLIGHT;
        inFlight += mayBeSent ? 1 : 0;
        return mayBeSent ? sent++ : -1;
    }

    private void send(int number) {
        byte[] body = Integer.toString(number).getBytes(StandardCharsets.UTF_8);
        try {
            producer.send(new Message(topic, body), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    acknowledge(number);
                }

                @Override
                public void onException(Throwable failure) {
                    sendAgain(number);
                }
            });
        } catch (Exception failure) {
            sendAgain(number);
        }
    }

    private synchronized void acknowledge(int number) {
        acknowledged.set(number);
        inFlight--;
    }

    private synchronized void sendAgain(int number) {
        sentAgain.set(number);
        timer.schedule(() -> send(number), AGAIN_AFTER, TimeUnit.MILLISECONDS);
    }

    private synchronized ConsumeConcurrentlyStatus consume(List<MessageExt> messages, ConsumeConcurrentlyContext context) {
        for (MessageExt message : messages) {
            int number = Integer.parseInt(new String(message.getBody(), StandardCharsets.UTF_8));
            if (received.get(number)) {
                repeats++;
                unexplained += sentAgain.get(number) ? 0 : 1;
            }
            received.set(number);
        }
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
    }

    private synchronized boolean isComplete() {
        return acknowledged.cardinality() == sent && received.cardinality() == sent;
    }

    private synchronized Map<String, Integer> figures() {
        return Map.of("sent", sent, "acknowledged", acknowledged.cardinality(), "received", received.cardinality(),
            "sent_again", sentAgain.cardinality(), "repeats", repeats, "unexplained_repeats", unexplained);
    }
}

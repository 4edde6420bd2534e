import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.MessageQueueSelector;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** The ways to send that are less common: selectors, queues and batches with callbacks or one-way, and requests. */
final class OtherSends {
    private static final MessageQueueSelector BY_KEY = new SelectMessageQueueByHash();

    private OtherSends() {
    }

    static Object asyncOrdered(Call call) throws Exception {
        return Sends.withProducer(call, producer -> {
            List<CompletableFuture<SendResult>> waiting = new ArrayList<>();
            for (int number = 0; number < call.number("count", 20); number++) {
                producer.send(Sends.message(call, number), BY_KEY, key(call, number), Sends.completing(added(waiting)));
            }
            return facts(waiting);
        });
    }

    static Object asyncToQueue(Call call) throws Exception {
        return Sends.withProducer(call, producer -> {
            List<CompletableFuture<SendResult>> waiting = new ArrayList<>();
            for (int number = 0; number < call.number("count", 20); number++) {
                producer.send(Sends.message(call, number), queue(call), Sends.completing(added(waiting)));
            }
            return facts(waiting);
        });
    }

    static Object asyncBatch(Call call) throws Exception {
        return Sends.withProducer(call, producer -> {
            List<Message> messages = new ArrayList<>();
            for (int number = 0; number < call.number("count", 20); number++) {
                messages.add(Sends.message(call, number));
            }
            List<CompletableFuture<SendResult>> waiting = new ArrayList<>();
            producer.send(messages, Sends.completing(added(waiting)));
            return facts(waiting);
        });
    }

    static Object onewayOrdered(Call call) throws Exception {
        return Sends.withProducer(call, producer -> {
            for (int number = 0; number < call.number("count", 20); number++) {
                producer.sendOneway(Sends.message(call, number), BY_KEY, key(call, number));
            }
            return afterThat();
        });
    }

    static Object onewayToQueue(Call call) throws Exception {
        return Sends.withProducer(call, producer -> {
            for (int number = 0; number < call.number("count", 20); number++) {
                producer.sendOneway(Sends.message(call, number), queue(call));
            }
            return afterThat();
        });
    }

    /** Make a topic as an application does, from the one that new topics inherit from. */
    static Object createTopic(Call call) throws Exception {
        return Sends.withProducer(call, producer -> {
            producer.createTopic("TBW102", call.text("topic"), call.number("queues", 4));
            return List.of();
        });
    }

    /** Send a request and have the reply given to a callback. */
    static Object asyncRequest(Call call) throws Exception {
        return Sends.withProducer(call, producer -> {
            CompletableFuture<String> reply = new CompletableFuture<>();
            producer.request(Sends.message(call, 0), new RequestCallback() {
                @Override
                public void onSuccess(Message message) {
                    reply.complete(new String(message.getBody(), StandardCharsets.UTF_8));
                }

                @Override
                public void onException(Throwable failure) {
                    reply.completeExceptionally(failure);
                }
            }, call.number("timeout", 10_000));
            return reply.get(30, TimeUnit.SECONDS);
        });
    }

    private static CompletableFuture<SendResult> added(List<CompletableFuture<SendResult>> waiting) {
        CompletableFuture<SendResult> result = new CompletableFuture<>();
        waiting.add(result);
        return result;
    }

    private static List<Object> facts(List<CompletableFuture<SendResult>> waiting) throws Exception {
        List<Object> facts = new ArrayList<>();
        for (CompletableFuture<SendResult> result : waiting) {
            facts.add(Facts.of(result.get(30, TimeUnit.SECONDS)));
        }
        return facts;
    }

    private static Object afterThat() throws InterruptedException {
        Thread.sleep(200); // one-way: nobody tells when the bytes have left
        return List.of();
    }

    private static String key(Call call, int number) {
        return "order-" + number % call.number("orders", 3);
    }

    private static MessageQueue queue(Call call) {
        return new MessageQueue(call.text("topic"), call.text("broker"), call.number("queue", 0));
    }
}

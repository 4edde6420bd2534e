import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.MessageQueueSelector;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** Every way to send. */
final class Sends {
    interface Work {
        Object with(DefaultMQProducer producer) throws Exception;
    }

    private Sends() {
    }

    static Object sync(Call call) throws Exception {
        return withProducer(call, producer -> {
            List<Object> facts = new ArrayList<>();
            for (int number = 0; number < call.number("count", 20); number++) {
                facts.add(Facts.of(producer.send(message(call, number))));
            }
            return facts;
        });
    }

    static Object async(Call call) throws Exception {
        return withProducer(call, producer -> {
            List<CompletableFuture<SendResult>> waiting = new ArrayList<>();
            for (int number = 0; number < call.number("count", 20); number++) {
                CompletableFuture<SendResult> result = new CompletableFuture<>();
                waiting.add(result);
                producer.send(message(call, number), completing(result));
            }
            List<Object> facts = new ArrayList<>();
            for (CompletableFuture<SendResult> result : waiting) {
                facts.add(Facts.of(result.get(30, TimeUnit.SECONDS)));
            }
            return facts;
        });
    }

    static Object oneway(Call call) throws Exception {
        return withProducer(call, producer -> {
            for (int number = 0; number < call.number("count", 20); number++) {
                producer.sendOneway(message(call, number));
            }
            Thread.sleep(200); // one-way: nobody tells when the bytes have left
            return List.of();
        });
    }

    static Object batch(Call call) throws Exception {
        return withProducer(call, producer -> {
            List<Message> messages = new ArrayList<>();
            for (int number = 0; number < call.number("count", 20); number++) {
                messages.add(message(call, number));
            }
            return Facts.of(producer.send(messages));
        });
    }

    /** Send in order, each message to the queue of its key. */
    static Object ordered(Call call) throws Exception {
        MessageQueueSelector byKey = new SelectMessageQueueByHash();
        return withProducer(call, producer -> {
            List<Object> facts = new ArrayList<>();
            for (int number = 0; number < call.number("count", 20); number++) {
                String key = "order-" + number % call.number("orders", 3);
                facts.add(Facts.of(producer.send(message(call, number), byKey, key)));
            }
            return facts;
        });
    }

    static Object toQueue(Call call) throws Exception {
        MessageQueue queue = new MessageQueue(call.text("topic"), call.text("broker"), call.number("queue", 0));
        return withProducer(call, producer -> {
            List<Object> facts = new ArrayList<>();
            for (int number = 0; number < call.number("count", 20); number++) {
                facts.add(Facts.of(producer.send(message(call, call.number("first", 0) + number), queue)));
            }
            return facts;
        });
    }

    /** Send one message and wait for somebody's reply. */
    static Object request(Call call) throws Exception {
        return withProducer(call, producer -> {
            Message reply = producer.request(message(call, 0), call.number("timeout", 10_000));
            return new String(reply.getBody(), StandardCharsets.UTF_8);
        });
    }

    static SendCallback completing(CompletableFuture<SendResult> result) {
        return new SendCallback() {
            @Override
            public void onSuccess(SendResult sent) {
                result.complete(sent);
            }

            @Override
            public void onException(Throwable failure) {
                result.completeExceptionally(failure);
            }
        };
    }

    static Object withProducer(Call call, Work work) throws Exception {
        DefaultMQProducer producer = call.configure(new DefaultMQProducer(call.text("group", "java-producers"),
            null, call.flag("trace"), null));
        producer.setSendMsgTimeout(10_000);
        producer.setMaxMessageSize(8 << 20);
        producer.start();
        try {
            Object result = work.with(producer);
            if (call.flag("trace")) {
                Thread.sleep(2000); // traces travel behind, and a producer that ends may forget them
            }
            return result;
        } finally {
            producer.shutdown();
        }
    }

    static Message message(Call call, int number) {
        Message message = new Message(call.text("topic"), number % 2 == 0 ? "even" : "odd", "k-" + number, body(call, number));
        message.putUserProperty("number", Integer.toString(number));
        message.setFlag(call.number("flag", 0));
        if (call.has("level")) {
            message.setDelayTimeLevel(call.number("level", 0));
        }
        return message;
    }

    private static byte[] body(Call call, int number) {
        String text = call.text("body", "body") + " " + number;
        return text.repeat(call.number("repeat", 1)).getBytes(StandardCharsets.UTF_8);
    }
}

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullCallback;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Consumers that ask for messages themselves. */
@SuppressWarnings("deprecation")
final class Pulls {
    private interface Work {
        Object with(DefaultMQPullConsumer consumer) throws Exception;
    }

    private Pulls() {
    }

    /** Read every queue of a topic from its beginning to its end. */
    static Object all(Call call) throws Exception {
        return withConsumer(call, consumer -> {
            List<MessageExt> found = new ArrayList<>();
            for (MessageQueue queue : new TreeSet<>(consumer.fetchSubscribeMessageQueues(call.text("topic")))) {
                readQueue(consumer, call, queue, found::add);
            }
            return Facts.ofMessages(found);
        });
    }

    /** Return how many messages a topic has, and how many different numbers they bear. */
    static Object count(Call call) throws Exception {
        return withConsumer(call, consumer -> {
            BitSet numbers = new BitSet();
            long[] count = {0};
            for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(call.text("topic"))) {
                readQueue(consumer, call, queue, message -> {
                    numbers.set(Integer.parseInt(message.getUserProperty("number")));
                    count[0]++;
                });
            }
            return List.of(count[0], numbers.cardinality());
        });
    }

    /** Pull once, at one offset. */
    static Object once(Call call) throws Exception {
        return withConsumer(call, consumer -> {
            MessageQueue queue = new MessageQueue(call.text("topic"), call.text("broker"), call.number("queue", 0));
            consumer.maxOffset(queue); // learns where the broker is
            consumer.getDefaultMQPullConsumerImpl().getRebalanceImpl().getmQClientFactory()
                .sendHeartbeatToAllBrokerWithLock(); // learns its version: a filter by SQL wants to know
            PullResult result = consumer.pull(queue, call.selector(), call.large("offset", 0), call.number("count", 32));
            List<?> found = result.getMsgFoundList() == null ? List.of() : Facts.ofMessages(result.getMsgFoundList());
            return List.of(result.getPullStatus().name(), result.getNextBeginOffset(), result.getMinOffset(),
                result.getMaxOffset(), found);
        });
    }

    /** Pull once at the end of a queue, and wait there for a message to come; with `later`, by a callback. */
    static Object waiting(Call call) throws Exception {
        return withConsumer(call, consumer -> {
            MessageQueue queue = new MessageQueue(call.text("topic"), call.text("broker"), call.number("queue", 0));
            long end = consumer.maxOffset(queue);
            if (!call.flag("later")) {
                return Facts.ofMessages(consumer.pullBlockIfNotFound(queue, "*", end, 32).getMsgFoundList());
            }
            CompletableFuture<PullResult> result = new CompletableFuture<>();
            consumer.pullBlockIfNotFound(queue, "*", end, 32, completing(result));
            return Facts.ofMessages(result.get(30, TimeUnit.SECONDS).getMsgFoundList());
        });
    }

    private static PullCallback completing(CompletableFuture<PullResult> waiting) {
        return new PullCallback() {
            @Override
            public void onSuccess(PullResult result) {
                waiting.complete(result);
            }

            @Override
            public void onException(Throwable failure) {
                waiting.completeExceptionally(failure);
            }
        };
    }

    /** Ask a queue's bounds, the offset at a time and the oldest message's time. */
    static Object offsets(Call call) throws Exception {
        return withConsumer(call, consumer -> {
            MessageQueue queue = new MessageQueue(call.text("topic"), call.text("broker"), call.number("queue", 0));
            return List.of(consumer.minOffset(queue), consumer.maxOffset(queue),
                consumer.searchOffset(queue, call.large("time", 0)), consumer.earliestMsgStoreTime(queue));
        });
    }

    /** Commit an offset and read it back. */
    static Object commit(Call call) throws Exception {
        return withConsumer(call, consumer -> {
            MessageQueue queue = new MessageQueue(call.text("topic"), call.text("broker"), call.number("queue", 0));
            consumer.updateConsumeOffset(queue, call.large("offset", 0));
            consumer.getOffsetStore().persist(queue);
            Thread.sleep(300); // the commit is one-way
            return consumer.fetchConsumeOffset(queue, true);
        });
    }

    private static void readQueue(DefaultMQPullConsumer consumer, Call call, MessageQueue queue,
        Consumer<MessageExt> handle) throws Exception {
        long offset = consumer.minOffset(queue);
        long end = consumer.maxOffset(queue);
        while (offset < end) {
            PullResult result = consumer.pull(queue, call.selector(), offset, call.number("at_once", 32));
            if (result.getMsgFoundList() != null) {
                result.getMsgFoundList().forEach(handle);
            }
            if (result.getNextBeginOffset() <= offset) {
                throw new IllegalStateException("stuck at " + offset + " of " + queue + ": " + result);
            }
            offset = result.getNextBeginOffset();
        }
    }

    private static Object withConsumer(Call call, Work work) throws Exception {
        DefaultMQPullConsumer consumer = call.configure(new DefaultMQPullConsumer(call.text("group", "java-pullers")));
        consumer.start();
        try {
            return work.with(consumer);
        } finally {
            consumer.shutdown();
        }
    }
}

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Transaction producers that live from `start` to `stop`; what they answer is in each message's properties. */
final class Transactions implements TransactionListener {
    private static final Map<String, Transactions> RUNNING = new HashMap<>();

    private final LinkedBlockingQueue<MessageExt> checked = new LinkedBlockingQueue<>();
    private final TransactionMQProducer producer;

    private Transactions(Call call) throws Exception {
        producer = call.configure(new TransactionMQProducer(call.text("group")));
        producer.setTransactionListener(this);
        producer.setSendMsgTimeout(10_000);
        producer.start();
    }

    static Object start(Call call) throws Exception {
        RUNNING.put(call.text("name"), new Transactions(call));
        return null;
    }

    /** Send one message; `execute` and `check` say what the local transaction and a later check shall answer. */
    static Object send(Call call) throws Exception {
        Message message = Sends.message(call, call.number("number", 0));
        message.putUserProperty("execute", call.text("execute"));
        message.putUserProperty("check", call.text("check", "UNKNOW"));
        return Facts.of(RUNNING.get(call.text("name")).producer.sendMessageInTransaction(message, null));
    }

    /** Return the next message that the broker asked about. */
    static Object checked(Call call) throws Exception {
        MessageExt message = RUNNING.get(call.text("name")).checked.poll(call.number("milliseconds", 40_000),
            TimeUnit.MILLISECONDS);
        return message == null ? null : Facts.of(message);
    }

    static Object stop(Call call) {
        RUNNING.remove(call.text("name")).producer.shutdown();
        return null;
    }

    @Override
    public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
        return LocalTransactionState.valueOf(message.getUserProperty("execute"));
    }

    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt message) {
        checked.add(message);
        return LocalTransactionState.valueOf(message.getUserProperty("check"));
    }
}

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.trace.TraceBean;
import org.apache.rocketmq.client.trace.TraceContext;
import org.apache.rocketmq.client.trace.TraceDataEncoder;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Message traces: producers that write them, and what Apache's own decoder reads in anybody's. */
final class Traces {
    private static final int LINGER = 2000; // traces travel behind, and a producer that ends may forget them

    private Traces() {
    }

    /** Send a message, a delayed one, and one without tags and keys; return their ids. */
    static Object send(Call call) throws Exception {
        DefaultMQProducer producer = call.configure(new DefaultMQProducer(call.text("group"), null, true,
            call.text("trace_topic", null)));
        producer.setSendMsgTimeout(10_000);
        producer.start();
        try {
            Map<String, Object> ids = new LinkedHashMap<>();
            ids.put("plain", producer.send(message(call)).getMsgId());
            Message later = message(call);
            later.setDelayTimeLevel(1);
            ids.put("delayed", producer.send(later).getMsgId());
            Message bare = new Message(call.text("topic"), "bare".getBytes(StandardCharsets.UTF_8));
            ids.put("bare", producer.send(bare).getMsgId());
            Thread.sleep(LINGER);
            return ids;
        } finally {
            producer.shutdown();
        }
    }

    /** Send one message in a transaction that ends as `state` says, and return its id. */
    static Object transaction(Call call) throws Exception {
        LocalTransactionState state = LocalTransactionState.valueOf(call.text("state"));
        TransactionMQProducer producer = call.configure(new TransactionMQProducer(null, call.text("group"), null, true,
            null));
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
                return state;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                return LocalTransactionState.COMMIT_MESSAGE;
            }
        });
        producer.setSendMsgTimeout(10_000);
        producer.start();
        try {
            SendResult sent = producer.sendMessageInTransaction(message(call), null);
            Thread.sleep(LINGER + call.number("stay", 0));
            return sent.getMsgId();
        } finally {
            producer.shutdown();
        }
    }

    /** Return every record of the trace messages with a key, as Apache's decoder reads it. */
    static Object read(Call call) throws Exception {
        DefaultMQAdminExt admin = call.configure(new DefaultMQAdminExt());
        admin.start();
        try {
            List<Object> records = new ArrayList<>();
            for (MessageExt message : admin.queryMessage(call.text("trace_topic", "RMQ_SYS_TRACE_TOPIC"), call.text("id"),
                64, 0, Long.MAX_VALUE).getMessageList()) {
                String body = new String(message.getBody(), StandardCharsets.UTF_8);
                for (TraceContext context : TraceDataEncoder.decoderFromTraceDataString(body)) {
                    TraceBean bean = context.getTraceBeans().get(0);
                    if (bean.getMsgId().equals(call.text("id"))) {
                        JSONObject record = (JSONObject) JSON.toJSON(bean);
                        record.putAll((JSONObject) JSON.toJSON(context));
                        record.remove("traceBeans");
                        records.add(record);
                    }
                }
            }
            return records;
        } finally {
            admin.shutdown();
        }
    }

    private static Message message(Call call) {
        return new Message(call.text("topic"), "created", "o-1 o-2", "an order".getBytes(StandardCharsets.UTF_8));
    }
}

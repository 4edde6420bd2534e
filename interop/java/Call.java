import com.alibaba.fastjson.JSONObject;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.MessageSelector;

/** The arguments of one call from the tests. */
final class Call {
    private final JSONObject arguments;

    Call(JSONObject arguments) {
        this.arguments = arguments;
    }

    boolean has(String name) {
        return arguments.containsKey(name);
    }

    String text(String name) {
        String value = arguments.getString(name);
        if (value == null) {
            throw new IllegalArgumentException("no argument " + name);
        }
        return value;
    }

    String text(String name, String otherwise) {
        return has(name) ? text(name) : otherwise;
    }

    int number(String name, int otherwise) {
        return has(name) ? arguments.getIntValue(name) : otherwise;
    }

    long large(String name, long otherwise) {
        return has(name) ? arguments.getLongValue(name) : otherwise;
    }

    boolean flag(String name) {
        return has(name) && arguments.getBooleanValue(name);
    }

    /** Set what every client has: name servers, a name of its own and perhaps a namespace. */
    <T extends ClientConfig> T configure(T client) {
        client.setNamesrvAddr(text("namesrv"));
        client.setInstanceName(text("instance", Long.toString(System.nanoTime())));
        client.setPollNameServerInterval(1000);
        client.setPersistConsumerOffsetInterval(500);
        client.setHeartbeatBrokerInterval(number("heartbeat", 1000)); // a broker that was restarted knows its clients soon
        if (has("namespace")) {
            client.setNamespace(text("namespace"));
        }
        return client;
    }

    MessageSelector selector() {
        return has("sql") ? MessageSelector.bySql(text("sql")) : MessageSelector.byTag(text("tags", "*"));
    }
}

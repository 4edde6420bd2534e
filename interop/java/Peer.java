import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Runs scenarios for the tests, so that one JVM serves many: each line of input is a call, `{"do": "Sends.sync", …}`;
 * each line of output is what came of it, `{"result": …}` or `{"failed": …}`.
 */
public final class Peer {
    private Peer() {
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err); // what Apache's code prints is not an answer
        BufferedReader calls = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        answers.println("ready");
        for (String line = calls.readLine(); line != null; line = calls.readLine()) {
            answers.println(JSON.toJSONString(answer(line), SerializerFeature.WriteMapNullValue,
                SerializerFeature.DisableCircularReferenceDetect));
            answers.flush();
        }
        Runtime.getRuntime().halt(0); // clients that a failed scenario left behind must not hold us
    }

    private static Map<String, Object> answer(String line) {
        Map<String, Object> answer = new LinkedHashMap<>();
        try {
            answer.put("result", run(JSON.parseObject(line)));
        } catch (Throwable failure) {
            answer.put("failed", describe(failure));
        }
        return answer;
    }

    private static Object run(JSONObject call) throws Throwable {
        String[] names = call.getString("do").split("\\.");
        try {
            return Class.forName(names[0]).getDeclaredMethod(names[1], Call.class).invoke(null, new Call(call));
        } catch (InvocationTargetException failure) {
            throw failure.getCause();
        }
    }

    private static String describe(Throwable failure) {
        StringWriter text = new StringWriter();
        failure.printStackTrace(new PrintWriter(text));
        return text.toString();
    }
}

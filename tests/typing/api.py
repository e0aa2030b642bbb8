from syncagent import CancelToken

token: CancelToken = CancelToken(timeout=1).child()
